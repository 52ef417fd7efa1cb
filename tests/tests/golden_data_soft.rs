// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of `golden_data.rs` on the host-integrated device. It has STags and TOs of its own, so they are exchanged on the way, and it asks for markers where a conversation wants them.
use ironwarp_iwcm::{Errno, MpaOptions};
use ironwarp_soft::SoftConfig;
use ironwarp_tests::{
    golden::{play_all, rows},
    stage::SoftStage,
    wrong::Manners,
};
use ironwarp_verbs::WcStatus;
use std::{collections::BTreeSet, time::Duration};

/// As in `terminate_soft.rs`.
const MANNERS: Manners = Manners {
    close: Err(Errno::ConnectionReset),
    bad_response: WcStatus::BadRespErr,
    bounds_work: false,
    places_short: true,
    tells_why: true,
    wants_headers: true,
    keeps_receives: false,
};

#[test]
fn conversations_behind_the_start_up() {
    let setups: BTreeSet<_> = rows().iter().map(|row| row.setup).collect();
    for setup in setups {
        let mut stage = SoftStage::new(SoftConfig {
            close_timeout: Duration::from_millis(300),
            terminate_timeout: Duration::from_millis(500),
            mpa: MpaOptions { crc: setup.crc, markers: setup.markers, ..MpaOptions::default() },
            max_mulpdu: setup.mulpdu,
            ..SoftConfig::default()
        });
        let count = play_all(&mut stage, "soft", MANNERS, |row| row.setup == setup);
        println!("{count} conversations with {setup:?}");
        assert_eq!(stage.counter("connectionsLive"), 0);
    }
}
