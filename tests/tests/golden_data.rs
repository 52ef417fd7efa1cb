// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captured connections of Linux siw and the worked examples, behind their start-up, played against a simulated adapter in the place of either side, octet by octet.
use ironwarp_iwcm::Errno;
use ironwarp_rnic::TcpSettings;
use ironwarp_tests::{
    golden::{assert_complete, play_all, Row},
    stage::{AdapterStage, Options},
    wrong::Manners,
};
use ironwarp_verbs::WcStatus;

/// As in `terminate.rs`.
const MANNERS: Manners = Manners {
    close: Err(Errno::Protocol),
    bad_response: WcStatus::WrFlushErr,
    places_short: false,
    tells_why: false,
    wants_headers: false,
    bounds_work: true,
    keeps_receives: true,
};

fn play(which: impl Fn(&Row) -> bool) {
    let tcp = TcpSettings { close_timeout_us: Some(150), ..TcpSettings::default() };
    let mut stage = AdapterStage::new(Options { tcp, ..Options::default() });
    let count = play_all(&mut stage, "adapter", MANNERS, which);
    println!("{count} conversations");
    stage.assert_over();
}

#[test]
fn every_conversation_and_every_worked_fpdu_is_in_the_table() {
    assert_complete();
}

/// Covers: MPA-11, MPA-21, MPA-27, MRK-1, MRK-2, MRK-5, ENH-5, ENH-6, RDM-9, RDM-16, RDM-17
#[test]
fn worked_examples_behind_the_start_up() {
    play(Row::is_example);
}

/// Covers: MPA-6, MPA-13, MPA-23, MPA-31, DDP-5, DDP-9, DDP-20, RDM-5, RDM-12, RDM-15, RDM-19, RDM-33
#[test]
fn captured_conversations_behind_the_start_up() {
    play(|row| !row.is_example());
}
