// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks and waits, from `std` or, under `cfg(loom)`, from the model checker. A poisoned lock is taken as it is: what it guards is valid between any
//! two statements.
#[cfg(loom)]
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::thread::{current, ThreadId};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::thread::{current, ThreadId};

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
