// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks and waits, from `std` or, under `cfg(loom)`, from the model checker. A poisoned lock is taken as it is: what it guards is valid between any
//! two statements.
#[cfg(loom)]
pub(crate) use loom::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{current, ThreadId},
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{current, ThreadId},
};

use std::{sync::PoisonError, time::Duration};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notice; false after `bound`. The model checker has no time: there every wait ends by a notice, or the model is stuck, which it reports.
#[cfg(not(loom))]
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, bound: Duration) -> (MutexGuard<'a, T>, bool) {
    let (guard, result) = condvar.wait_timeout(guard, bound).unwrap_or_else(PoisonError::into_inner);
    (guard, !result.timed_out())
}
#[cfg(loom)]
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, _bound: Duration) -> (MutexGuard<'a, T>, bool) {
    (condvar.wait(guard).unwrap_or_else(PoisonError::into_inner), true)
}

/// What `call` answers; none if it panicked. Under the model checker a panic is a finding and goes on.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Option<T> {
    if cfg!(loom) {
        return Some(call());
    }
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).ok()
}
