// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::syn_guard::SynGuard`: who is asked about, and what becomes of a SYN that is denied.
use ironwarp_models::{bench, syn_guard::Model, Dut};
use rand::{rngs::StdRng, Rng, SeedableRng};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    remote_ip: u32,
    local_port: u16,
    seq: u32,
    flags: u8,
    listening: bool,
}

/// The rules of this test.
fn denied(ip: u32, port: u16) -> bool {
    ip.is_multiple_of(3) || port.is_multiple_of(2)
}

/// Segments leave in order, whatever waits for whom; the rules are asked about each SYN to a listener once, and about nothing else; only `listening` of
/// a SYN that is denied changes.
#[test]
fn only_syns_to_a_listener_are_asked_about() {
    let mut rng = StdRng::seed_from_u64(bench::seed("syn_guard"));
    let mut m = Model::new(1);
    m.reset.set(true);
    m.tick();
    m.reset.set(false);
    let mut sent: VecDeque<Segment> = VecDeque::new();
    let (mut at_inp, mut asked, mut counted) = (None::<Segment>, None::<(u32, u16)>, 0);
    let (mut left, mut questions, mut should_ask, mut should_deny, mut clocks) = (3000, 0, 0, 0, 0);
    let mut held = None;
    while left > 0 || at_inp.is_some() || !sent.is_empty() {
        clocks += 1;
        assert!(clocks < 200_000, "it comes to an end");
        if at_inp.is_none() && left > 0 && rng.random_ratio(2, 3) {
            left -= 1;
            let s = Segment {
                remote_ip: rng.random(),
                local_port: rng.random(),
                seq: rng.random(),
                flags: if rng.random() { 2 } else { rng.random() },
                listening: rng.random_ratio(2, 3),
            };
            at_inp = Some(s);
            sent.push_back(s);
        }
        m.inp_valid.set(at_inp.is_some());
        if let Some(s) = at_inp {
            m.inp_data_tuple_remote_ip.set(s.remote_ip.into());
            m.inp_data_tuple_local_port.set(s.local_port.into());
            m.inp_data_seq.set(s.seq.into());
            m.inp_data_flags.set(s.flags.into());
            m.inp_data_listening.set(s.listening.into());
        }
        m.query_ready.set(asked.is_none() && rng.random());
        m.answer_valid.set(asked.is_some() && rng.random());
        m.answer_data.set(asked.is_some_and(|(ip, port)| denied(ip, port)));
        m.out_ready.set(rng.random());
        m.eval();
        let leaving = m.out_valid.get().then(|| Segment {
            remote_ip: m.out_data_tuple_remote_ip.get() as u32,
            local_port: m.out_data_tuple_local_port.get() as u16,
            seq: m.out_data_seq.get() as u32,
            flags: m.out_data_flags.get() as u8,
            listening: m.out_data_listening.bit(),
        });
        assert!(held.is_none() || held == leaving, "what is offered stays");
        held = leaving.filter(|_| !m.out_ready.get());
        counted += u32::from(m.cnt_conn_denied.get());
        if m.answer_valid.get() && m.answer_ready.get() {
            asked = None;
        }
        if m.query_valid.get() && m.query_ready.get() {
            assert!(!m.query_data_outbound.bit());
            asked = Some((m.query_data_peer.get() as u32, m.query_data_port.get() as u16));
            questions += 1;
        }
        if let (Some(got), true) = (leaving, m.out_ready.get()) {
            let s = sent.pop_front().expect("one that came");
            let opens = s.listening && s.flags & 0x16 == 2;
            let deny = opens && denied(s.remote_ip, s.local_port);
            assert_eq!(got, Segment { listening: s.listening && !deny, ..s });
            should_ask += u32::from(opens);
            should_deny += u32::from(deny);
        }
        if m.inp_valid.get() && m.inp_ready.get() {
            at_inp = None;
        }
        m.tick();
    }
    assert_eq!((questions, counted), (should_ask, should_deny));
    assert!(should_deny > 200 && should_ask > should_deny + 200);
}
