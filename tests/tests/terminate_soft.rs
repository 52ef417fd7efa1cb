// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of what can be wrong in what a peer sends, on the host-integrated device: its own suite has more of its own.
use ironwarp_iwcm::Errno;
use ironwarp_soft::SoftConfig;
use ironwarp_tests::{
    ends::{self, How, Work},
    stage::SoftStage,
    wrong::{self, Manners},
};
use ironwarp_verbs::WcStatus;
use std::time::Duration;

/// It reads Terminates to their end, and says why.
const MANNERS: Manners = Manners {
    close: Err(Errno::ConnectionReset),
    bad_response: WcStatus::BadRespErr,
    bounds_work: false,
    places_short: true,
    tells_why: true,
    wants_headers: true,
    keeps_receives: false,
};

fn stage() -> SoftStage {
    SoftStage::new(SoftConfig {
        close_timeout: Duration::from_millis(300),
        terminate_timeout: Duration::from_millis(500),
        ..SoftConfig::default()
    })
}

#[test]
fn what_a_peer_may_not_send() {
    let mut stage = stage();
    let count = wrong::play_all(&mut stage, MANNERS, &wrong::all());
    assert_eq!((stage.counter("terminatesOut"), stage.counter("connectionsLive")), (count as u64, 0));
}

#[test]
fn responses_terminates_and_own_errors() {
    let mut stage = stage();
    ends::wrong_responses(&mut stage, MANNERS);
    ends::terminates_of_the_peer(&mut stage, MANNERS);
    ends::own_errors(&mut stage, MANNERS);
    assert_eq!(stage.counter("connectionsLive"), 0);
}

/// Covers: TD-2
#[test]
fn fin_in_the_middle_of_an_fpdu_is_no_orderly_end() {
    let mut stage = stage();
    ends::fin_at_every_octet(&mut stage);
    assert_eq!(stage.counter("connectionsLive"), 0);
}

#[test]
fn each_work_request_completes_once_however_the_connection_ends() {
    let mut stage = stage();
    let works = [Work::Complete, Work::Reading, Work::Fenced];
    ends::teardowns(&mut stage, MANNERS, &works, &[How::Disconnect, How::Abort, How::ToError, How::PeerFin, How::PeerReset]);
    assert_eq!(stage.counter("connectionsLive"), 0);
}
