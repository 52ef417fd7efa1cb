// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::rx_router`: each class of frame to its place, with a port database that takes its time.
mod net;
use ironwarp_models::{rx_router::Model, Dut};
use net::{beats, field, octets, push};
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;

const CLASSES: [&str; 9] = ["echo", "tcp", "icmp", "options", "fragment", "other_proto", "vlan", "other_type", "foreign"];

/// What the port database says of a port, as a function of its number.
fn listening(port: u16) -> bool {
    port.is_multiple_of(5)
}
fn listener(port: u16) -> u64 {
    if listening(port) {
        u64::from(port) / 5
    } else {
        0
    }
}
fn used(port: u16) -> bool {
    port.is_multiple_of(7)
}

#[derive(Clone, Debug)]
struct Frame {
    class: usize,
    number: u64,
    port: u16,
    octets: Vec<u8>,
}

/// Covers: PDB-4, TCP-28, ETH-1, IP-11, IP-13
#[test]
fn every_frame_goes_to_its_place() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-models --test rx_router");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    for (share, ready) in [(true, 1.0), (false, 1.0), (true, 0.4), (false, 0.4)] {
        let mut m = Model::new(seed);
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
        m.share.set(share);
        let mut frames = vec![];
        for number in 0..600 {
            let n = rng.random_range(60..200);
            let class = rng.random_range(0..9);
            frames.push(Frame { class, number, port: rng.random(), octets: octets(&mut rng, n) });
        }
        let mut metas: VecDeque<_> = frames.iter().cloned().collect();
        let mut words: VecDeque<_> = frames.iter().flat_map(|f| beats(&f.octets)).collect();
        let (mut meta_on, mut beat_on) = (false, false);
        let mut query: Option<(u16, u32)> = None;
        let mut got: [VecDeque<(u64, Vec<u8>)>; 3] = Default::default();
        let mut building = vec![];
        let mut counters = [0u64; 11];
        let mut clocks = 0;
        while !words.is_empty() || clocks % 64 != 0 {
            clocks += 1;
            assert!(clocks < 200_000, "stuck");
            meta_on |= !metas.is_empty() && rng.random_bool(0.5);
            m.meta_in_valid.set(meta_on);
            if let Some(f) = metas.front() {
                let bits = [
                    &mut m.meta_in_data_echo,
                    &mut m.meta_in_data_tcp,
                    &mut m.meta_in_data_icmp,
                    &mut m.meta_in_data_options,
                    &mut m.meta_in_data_fragment,
                    &mut m.meta_in_data_other_proto,
                    &mut m.meta_in_data_vlan,
                    &mut m.meta_in_data_other_type,
                    &mut m.meta_in_data_foreign,
                ];
                for (i, bit) in bits.into_iter().enumerate() {
                    bit.set(u64::from(f.class == i));
                }
                m.meta_in_data_ip.set(u64::from(f.class < 6));
                m.meta_in_data_seq.set(f.number);
                m.meta_in_data_dst_ip.set(f.number ^ 0xc000_0000);
                m.meta_in_data_dst_port.set(u64::from(f.port));
                let fields = [
                    (&mut m.meta_in_data_link_broadcast, 1),
                    (&mut m.meta_in_data_len, 16),
                    (&mut m.meta_in_data_src_ip, 32),
                    (&mut m.meta_in_data_ip_len, 16),
                    (&mut m.meta_in_data_src_port, 16),
                    (&mut m.meta_in_data_ack, 32),
                    (&mut m.meta_in_data_tcp_flags, 8),
                    (&mut m.meta_in_data_data_offset, 4),
                    (&mut m.meta_in_data_window, 16),
                ];
                for (i, (port, bits)) in fields.into_iter().enumerate() {
                    port.set(field(f.number, i as u64, bits));
                }
            }
            beat_on |= !words.is_empty() && rng.random_bool(if ready == 1.0 { 1.0 } else { 0.8 });
            m.inp_valid.set(beat_on);
            if let Some(b) = words.front() {
                m.inp_beat_data.set(b.data);
                m.inp_beat_keep.set(b.keep);
                m.inp_beat_last.set(u64::from(b.last));
            }
            m.lookup_ready.set(query.is_none() && rng.random_bool(0.7));
            let answer = query.filter(|q| q.1 == 0);
            m.answer_valid.set(answer.is_some());
            if let Some((port, _)) = answer {
                m.answer_data_listening.set(u64::from(listening(port)));
                m.answer_data_listener.set(listener(port));
                m.answer_data_used.set(u64::from(used(port)));
                m.answer_data_reserved.set(u64::from(!listening(port) && !used(port) && port % 11 == 0));
            }
            let take = [rng.random_bool(ready), rng.random_bool(ready), rng.random_bool(ready)];
            m.host_ready.set(take[0]);
            m.icmp_ready.set(take[1]);
            m.tcp_ready.set(take[2]);
            m.eval();
            if let Some(q) = &mut query {
                q.1 = q.1.saturating_sub(1);
            }
            if answer.is_some() && m.answer_ready.get() {
                query = None;
            }
            if m.lookup_valid.get() && m.lookup_ready.get() {
                query = Some((m.lookup_data_port.get() as u16, rng.random_range(0..6)));
            }
            let outs = [
                (m.host_valid.get(), m.host_beat_data.get(), m.host_beat_keep.get(), m.host_beat_last.bit()),
                (m.icmp_valid.get(), m.icmp_beat_data.get(), m.icmp_beat_keep.get(), m.icmp_beat_last.bit()),
                (m.tcp_valid.get(), m.tcp_beat_data.get(), m.tcp_beat_keep.get(), m.tcp_beat_last.bit()),
            ];
            assert!(outs.iter().filter(|o| o.0).count() <= 1, "one place at a time");
            for (i, (valid, data, keep, last)) in outs.into_iter().enumerate() {
                if valid && take[i] {
                    push(&mut building, data, keep);
                    let number = m.meta_seq.get();
                    assert_eq!(m.meta_dst_ip.get(), number ^ 0xc000_0000);
                    let fields = [
                        (&m.meta_link_broadcast, 1),
                        (&m.meta_len, 16),
                        (&m.meta_src_ip, 32),
                        (&m.meta_ip_len, 16),
                        (&m.meta_src_port, 16),
                        (&m.meta_ack, 32),
                        (&m.meta_tcp_flags, 8),
                        (&m.meta_data_offset, 4),
                        (&m.meta_window, 16),
                    ];
                    for (i, (port, bits)) in fields.into_iter().enumerate() {
                        assert_eq!(port.get(), field(number, i as u64, bits), "field {i} of frame {number}");
                    }
                    if i == 2 {
                        let port = m.meta_dst_port.get() as u16;
                        assert_eq!((m.listening.get(), u64::from(m.listener.get())), (listening(port), listener(port)), "frame {number}");
                    }
                    if last {
                        got[i].push_back((m.meta_seq.get(), std::mem::take(&mut building)));
                    }
                }
            }
            let pulses = [
                &m.cnt_ip4_in_pkts,
                &m.cnt_ip4_in_options,
                &m.cnt_ip4_in_fragments,
                &m.cnt_ip4_in_other_proto,
                &m.cnt_eth_in_other_type,
                &m.cnt_rx_vlan_errors,
                &m.cnt_icmp_in_echos,
                &m.cnt_icmp_in_to_host,
                &m.cnt_tcp_in_segs,
                &m.cnt_tcp_in_no_port,
                &m.cnt_l2_in_not_shared,
            ];
            for (n, p) in counters.iter_mut().zip(pulses) {
                *n += u64::from(p.get());
            }
            if meta_on && m.meta_in_ready.get() {
                metas.pop_front();
                meta_on = false;
            }
            if beat_on && m.inp_ready.get() {
                words.pop_front();
                beat_on = false;
            }
            m.tick();
        }
        // the plain rule
        let mut want: [VecDeque<(u64, Vec<u8>)>; 3] = Default::default();
        let mut sums = [0u64; 11];
        for f in frames {
            sums[0] += u64::from(f.class < 6);
            for (sum, class) in [(1, 3), (2, 4), (3, 5), (4, 7), (5, 6), (6, 0), (7, 2), (8, 1)] {
                sums[sum] += u64::from(f.class == class);
            }
            let held = CLASSES[f.class] == "tcp" && (listening(f.port) || used(f.port));
            match CLASSES[f.class] {
                "echo" => want[1].push_back((f.number, f.octets)),
                "tcp" if held => want[2].push_back((f.number, f.octets)),
                _ if share => want[0].push_back((f.number, f.octets)),
                "tcp" => {
                    sums[9] += 1;
                    want[2].push_back((f.number, f.octets));
                }
                _ => sums[10] += 1,
            }
        }
        assert!(got == want, "sharing {share}");
        assert_eq!(counters, sums, "sharing {share}");
        if ready == 1.0 {
            println!("{clocks} clocks for 600 frames");
        }
    }
}
