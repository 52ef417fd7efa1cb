// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ctrl-C and termination: long-running commands end in order, so that the adapter is reset and captures are whole.
use crate::Failure;
use std::sync::{Arc, Condvar, Mutex};

/// Says when it is time to end.
#[derive(Clone)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// Takes over SIGINT, SIGTERM and SIGHUP.
    pub fn on_signals() -> Result<Self, Failure> {
        let stop = Stop(Arc::default());
        let flag = stop.0.clone();
        ctrlc::set_handler(move || {
            *flag.0.lock().unwrap_or_else(|e| e.into_inner()) = true;
            flag.1.notify_all();
        })?;
        Ok(stop)
    }
    /// Is it time?
    pub fn requested(&self) -> bool {
        *self.0 .0.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Sleeps up to `time`; true when it is time to end.
    #[cfg(feature = "sim")]
    pub fn sleep(&self, time: std::time::Duration) -> bool {
        let guard = self.0 .0.lock().unwrap_or_else(|e| e.into_inner());
        *self.0 .1.wait_timeout_while(guard, time, |stop| !*stop).unwrap_or_else(|e| e.into_inner()).0
    }
}
