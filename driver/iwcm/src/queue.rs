// SPDX-License-Identifier: MIT OR Apache-2.0
//! Telling events: what the one thread does with each, in the order in which they were raised.
//!
//! A transition is made when its event is told, not when it is raised, so that a client finds its id in the state that the event says.
use crate::{
    cm::Items,
    counters::Counters,
    id::{Verdict, CHILD_ITEMS},
    inner::{Body, Inner},
    sync::{catch, current},
    table::{transition, Outcome, State, Stimulus},
    CmId, Event, EventKind,
};
use ironwarp_verbs::Errno;
use std::sync::Arc;

/// An entry of the queue.
pub(crate) struct Work {
    id: Arc<Inner>,
    what: What,
}

enum What {
    /// An event of the provider, and the life it was raised in.
    Event(Box<Event>, u32),
    /// The id's device is gone; what is owed now will not come by itself.
    Removed,
}

impl Work {
    pub(crate) fn event(id: Arc<Inner>, event: Event, life: u32) -> Self {
        Work { id, what: What::Event(Box::new(event), life) }
    }
    pub(crate) const fn removed(id: Arc<Inner>) -> Self {
        Work { id, what: What::Removed }
    }
    /// Tells it, in the thread that tells all.
    pub(crate) fn run(self) {
        let id = self.id;
        match self.what {
            What::Event(event, life) => {
                // the item is free again before the client hears of it
                id.body().used -= 1;
                if event.kind == EventKind::ConnectRequest {
                    process_request(&id, *event, life);
                } else {
                    process(&id, &event, Some(life));
                }
            }
            What::Removed => process_removed(&id),
        }
        id.body().queued -= 1;
        id.changed.notify_all();
    }
}

/// What an event means for an id now.
fn judge(body: &Body, event: &Event, life: Option<u32>) -> Outcome {
    if body.drop_events {
        return Outcome::Quiet(State::Destroying);
    }
    // ESTABLISHED answers accept: without one there is no queue pair
    if life.is_some_and(|life| life != body.life) || (event.kind == EventKind::Established && body.qp.is_none()) {
        return Outcome::Odd;
    }
    transition(body.state, Stimulus::Event(event.kind, event.status.is_ok()))
}

/// Everything but CONNECT_REQUEST. `life` is none for what is made here.
fn process(id: &Arc<Inner>, event: &Event, life: Option<u32>) {
    let mut body = id.body();
    let counters = &id.cm.counters;
    let (next, told) = match judge(&body, event, life) {
        Outcome::To(next) => (next, true),
        Outcome::Quiet(State::Destroying) => return Counters::add(&counters.swallowed),
        Outcome::Quiet(next) => (next, false),
        Outcome::Ignored | Outcome::Nothing => return,
        // it was told in the provider's place already
        Outcome::Odd | Outcome::Refused(_) if body.removed => return Counters::add(&counters.swallowed),
        Outcome::Odd | Outcome::Refused(_) => {
            Counters::add(&counters.odd);
            if event.kind == EventKind::ConnectReply {
                Counters::add(&counters.duplicate_replies);
            }
            tracing::warn!(state = body.state.name(), "the provider raised {}, which cannot be now: ignored", event.kind.name());
            return;
        }
    };
    body.state = next;
    // T8, T10: the connection is over, and the queue pair free
    let qp = if next == State::Idle { body.qp.take() } else { None };
    if matches!(event.kind, EventKind::ConnectReply | EventKind::Established) {
        body.owed = false;
    }
    if event.kind == EventKind::ConnectReply && event.status.is_ok() {
        body.local = event.local_addr;
        body.remote = event.remote_addr;
    }
    drop(body);
    id.changed.notify_all();
    drop(qp);
    if told && tell(id, event) == Some(Verdict::Destroy) {
        // destroyed already by somebody else, perhaps
        let _ = id.begin_destroy();
    }
}

/// The device of the id is gone, its connection reset: the last events it is owed, unless they have come.
fn process_removed(id: &Arc<Inner>) {
    let kinds: &[EventKind] = {
        let body = id.body();
        match body.state {
            State::ConnSent => &[EventKind::ConnectReply],
            // its accept is under way: there was a queue pair
            State::ConnRecv => &[EventKind::Established, EventKind::Close],
            State::Established | State::Closing => &[EventKind::Close],
            _ => &[],
        }
    };
    for &kind in kinds {
        let (local, remote) = {
            let body = id.body();
            (body.local, body.remote)
        };
        process(id, &Event { status: Err(Errno::ConnectionReset), ..Event::new(kind, local, remote) }, None);
    }
}

fn process_request(listener: &Arc<Inner>, event: Event, life: u32) {
    let mut body = listener.body();
    let listens = judge(&body, &event, Some(life)) == Outcome::To(State::Listen) && !body.removed;
    // the listener's own mark, so that its destruction in this handler is seen as what it is
    body.telling = listens.then(|| current().id());
    drop(body);
    let verdict = match child(listener, &event) {
        (child, Ok(())) if listens => {
            // if the client keeps no clone, this is the last handle, and the child is rejected
            let id = child.handle();
            let verdict = tell(&child, &event);
            if verdict != Some(Verdict::Keep) {
                let _ = child.begin_destroy();
            }
            drop(id);
            verdict
        }
        // nobody has seen its id: nothing to wait for
        (child, _) => {
            let _ = child.begin_destroy();
            None
        }
    };
    listener.body().telling = None;
    listener.changed.notify_all();
    if verdict != Some(Verdict::Keep) {
        Counters::add(&listener.cm.counters.rejected);
    }
}

/// The id of a new connection; an error if it has no work items.
fn child(listener: &Arc<Inner>, event: &Event) -> (Arc<Inner>, Result<(), Errno>) {
    let handler = listener.body().handler.clone();
    let child = Inner::new(listener.worker(), listener.device, listener.provider.clone(), handler);
    let items = Items::reserve(&listener.cm, CHILD_ITEMS);
    let mut body = child.body();
    body.state = State::ConnRecv;
    body.bound = event.local_addr;
    body.local = event.local_addr;
    body.remote = event.remote_addr;
    body.provider_data = event.provider_data;
    let reserved = items.map(|items| body.items = Some(items));
    drop(body);
    (child, reserved)
}

/// Calls the client. None: nobody has a handle any more, or the id is being destroyed.
fn tell(id: &Arc<Inner>, event: &Event) -> Option<Verdict> {
    let mut body = id.body();
    if body.handles == 0 || body.drop_events {
        return None;
    }
    body.handles += 1;
    body.telling = Some(current().id());
    let handler = body.handler.clone();
    drop(body);
    Counters::add(&id.cm.counters.delivered);
    let handle = CmId(id.clone());
    let verdict = catch(|| handler(&handle, event)).unwrap_or_else(|| {
        Counters::add(&id.cm.counters.panics);
        tracing::error!("a handler panicked in {}: its id is destroyed", event.kind.name());
        Verdict::Destroy
    });
    // while the id still counts as being in its handler: what the handler owns may end with it
    drop(handler);
    id.body().telling = None;
    id.changed.notify_all();
    drop(handle);
    Some(verdict)
}
