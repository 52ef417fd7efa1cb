// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::seg_rx`: frames written by `ironwarp_wire` against a plain reading of them, with verdicts of all kinds and back pressure.
mod net;
use ironwarp_models::{bench, seg_rx::Model, Dut};
use ironwarp_wire::{ethernet, ipv4, tcp, MacAddr};
use net::{beats, octets, push, MAC, OWN, PEER, REMOTE};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What the fields of a segment are to be.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    ports: [u64; 2],
    addresses: [u64; 2],
    seq: u64,
    ack: u64,
    flags: u64,
    window: u64,
    len: u64,
    mss: u64,
    bad_options: bool,
    link_broadcast: bool,
    listening: bool,
    listener: u64,
}

/// What becomes of a payload: connection, octets to skip and to take, and two bits that are handed on.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    index: u64,
    skip: usize,
    take: usize,
    first: bool,
    passive: bool,
    full: bool,
}

#[derive(Clone, Debug)]
struct Case {
    frame: Vec<u8>,
    total: u64,
    offset: u64,
    told: Told,
    /// An engine drops segments whose options are bad.
    payload: Vec<u8>,
    kept: Option<Kept>,
}

/// A frame with these options (a multiple of 4 octets), this payload and `pad` octets behind the datagram; all else by chance.
fn case(rng: &mut ChaCha8Rng, options: &[u8], payload: Vec<u8>, pad: usize) -> Case {
    let header = tcp::Header {
        source_port: rng.random(),
        destination_port: rng.random(),
        sequence: rng.random(),
        acknowledgment: rng.random(),
        flags: rng.random(),
        window: rng.random(),
        urgent_pointer: rng.random(),
        options,
    };
    let total = ipv4::HEADER_OCTETS + header.len() + payload.len();
    let mut frame = octets(rng, (14 + total + pad).max(60));
    let ethernet = ethernet::Header { destination: MacAddr(MAC), source: MacAddr(PEER), tag: None, ethertype: ethernet::TYPE_IPV4 };
    let datagram = ipv4::Header::new(REMOTE.into(), OWN.into(), ipv4::PROTOCOL_TCP, (total - ipv4::HEADER_OCTETS) as u16);
    ethernet.emit(&mut frame).expect("room");
    datagram.emit(&mut frame[14..]).expect("room");
    header.emit(REMOTE.into(), OWN.into(), &payload, &mut frame[34..]).expect("room");
    // the four reserved bits
    frame[46] |= rng.random::<u8>() & 15;
    let mss = tcp::Options::new(options).mss();
    let told = Told {
        ports: [header.destination_port, header.source_port].map(u64::from),
        addresses: [rng.random::<u32>(), rng.random::<u32>()].map(u64::from),
        seq: header.sequence.into(),
        ack: header.acknowledgment.into(),
        flags: header.flags.into(),
        window: header.window.into(),
        len: payload.len() as u64,
        // a value of 0 counts as 1
        mss: mss.ok().flatten().map_or(0, |v| u64::from(v.max(1))),
        bad_options: mss.is_err(),
        link_broadcast: rng.random(),
        listening: rng.random(),
        listener: rng.random::<u16>().into(),
    };
    let kept = (!payload.is_empty() && rng.random_bool(0.75)).then(|| {
        let skip = if rng.random() { 0 } else { rng.random_range(0..payload.len()) };
        let take = if rng.random() { payload.len() - skip } else { rng.random_range(1..=payload.len() - skip) };
        Kept { index: rng.random::<u16>().into(), skip, take, first: rng.random(), passive: rng.random(), full: rng.random() }
    });
    Case { frame, total: total as u64, offset: header.len() as u64 / 4, told, payload, kept }
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    /// Chances: a beat comes, an output is ready, a verdict comes.
    valid: f64,
    ready: f64,
    judge: f64,
}

/// Clocks of one frame: from its first beat offered to the segment taken, the payload announced, the first and the last beat of it taken, and the
/// frame's last beat taken.
#[derive(Default)]
struct Times {
    segment: u64,
    announced: u64,
    first: u64,
    last: u64,
    drained: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut m = Model::new(seed);
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
        Bench { m, rng: ChaCha8Rng::seed_from_u64(seed), valid: 1.0, ready: 1.0, judge: 1.0 }
    }

    /// Sends the frame and plays the engine and the receiver until nothing is left of it; stops after `limit` clocks.
    fn run(&mut self, case: &Case, limit: u64) -> Option<Times> {
        let (m, rng) = (&mut self.m, &mut self.rng);
        let words = beats(&case.frame);
        let (mut sent, mut offered, mut judged, mut verdict_on) = (0, false, false, false);
        let (mut told, mut announced, mut ended) = (None, None, false);
        let (mut got, mut times) = (vec![], Times::default());
        for clock in 0..limit {
            offered |= sent < words.len() && rng.random_bool(self.valid);
            m.inp_valid.set(offered);
            if let Some(w) = words.get(sent) {
                m.inp_beat_data.set(w.data);
                m.inp_beat_keep.set(w.keep);
                m.inp_beat_last.set(u64::from(w.last));
            }
            // the description is there with the frame's first beat, and no longer than its last
            let there = if sent < words.len() && (offered || sent > 0) { u64::MAX } else { 0x5555_5555_5555_5555 };
            let field = |value: u64, bits: u32| (if there == u64::MAX { value } else { there }) & ((1 << bits) - 1);
            let told_in = &case.told;
            m.meta_tcp.set(1);
            m.meta_len.set(field(case.frame.len() as u64, 16));
            m.meta_ip_len.set(field(case.total, 16));
            m.meta_data_offset.set(field(case.offset, 4));
            m.meta_dst_port.set(field(told_in.ports[0], 16));
            m.meta_src_port.set(field(told_in.ports[1], 16));
            m.meta_dst_ip.set(field(told_in.addresses[0], 32));
            m.meta_src_ip.set(field(told_in.addresses[1], 32));
            m.meta_seq.set(field(told_in.seq, 32));
            m.meta_ack.set(field(told_in.ack, 32));
            m.meta_tcp_flags.set(field(told_in.flags, 8));
            m.meta_window.set(field(told_in.window, 16));
            m.meta_link_broadcast.set(field(told_in.link_broadcast.into(), 1));
            m.listening.set(field(told_in.listening.into(), 1) != 0);
            m.listener.set(field(told_in.listener, 16) as u16);
            m.segment_ready.set(rng.random_bool(self.ready));
            verdict_on |= told.is_some() && !judged && rng.random_bool(self.judge);
            m.verdict_valid.set(verdict_on);
            let kept = case.kept.clone().unwrap_or(Kept { index: 3, skip: 5, take: 7, first: true, passive: true, full: true });
            m.verdict_data_keep.set(case.kept.is_some().into());
            m.verdict_data_index.set(kept.index);
            m.verdict_data_skip.set(kept.skip as u64);
            m.verdict_data_take.set(kept.take as u64);
            m.verdict_data_first.set(kept.first.into());
            m.verdict_data_passive.set(kept.passive.into());
            m.verdict_data_full.set(kept.full.into());
            m.payload_meta_ready.set(rng.random_bool(self.ready));
            m.out_ready.set(rng.random_bool(self.ready));
            m.eval();
            if m.segment_valid.get() && m.segment_ready.get() {
                assert!(told.is_none(), "one segment a frame");
                let replay = (m.segment_data_replay.bit(), m.segment_data_index.get(), m.segment_data_more.bit());
                assert_eq!(replay, (false, 0, false), "nothing is a replay here");
                told = Some(Told {
                    ports: [m.segment_data_tuple_local_port.get(), m.segment_data_tuple_remote_port.get()],
                    addresses: [m.segment_data_tuple_local_ip.get(), m.segment_data_tuple_remote_ip.get()],
                    seq: m.segment_data_seq.get(),
                    ack: m.segment_data_ack.get(),
                    flags: m.segment_data_flags.get(),
                    window: m.segment_data_window.get(),
                    len: m.segment_data_len.get(),
                    mss: m.segment_data_mss.get(),
                    bad_options: m.segment_data_bad_options.bit(),
                    link_broadcast: m.segment_data_link_broadcast.bit(),
                    listening: m.segment_data_listening.bit(),
                    listener: m.segment_data_listener.get(),
                });
                times.segment = clock;
            }
            if verdict_on && m.verdict_ready.get() {
                (judged, verdict_on) = (true, false);
            }
            if m.payload_meta_valid.get() && m.payload_meta_ready.get() {
                assert!(judged && announced.is_none());
                let d = &m;
                announced = Some(Kept {
                    index: d.payload_meta_data_index.get(),
                    skip: kept.skip,
                    take: d.payload_meta_data_len.get() as usize,
                    first: d.payload_meta_data_first.bit(),
                    passive: d.payload_meta_data_passive.bit(),
                    full: d.payload_meta_data_full.bit(),
                });
                times.announced = clock;
            }
            if m.out_valid.get() && m.out_ready.get() {
                assert!(announced.is_some() && !ended, "the announcement goes before");
                assert!(!m.out_beat_error.bit());
                if got.is_empty() {
                    times.first = clock;
                }
                push(&mut got, m.out_beat_data.get(), m.out_beat_keep.get());
                ended = m.out_beat_last.bit();
                assert!(ended || m.out_beat_keep.get() == 0xff, "only the last beat is not full");
                times.last = clock;
            }
            if offered && m.inp_ready.get() {
                (sent, offered) = (sent + 1, false);
                times.drained = clock;
            }
            m.tick();
            if sent == words.len() && judged && (case.kept.is_none() || ended) {
                let mut want = case.told.clone();
                if want.bad_options {
                    // what a broken list said before it broke does not matter
                    want.mss = told.as_ref().map_or(0, |t| t.mss);
                }
                assert_eq!(told, Some(want), "of {:02x?}", &case.frame[34..34 + 4 * case.offset as usize]);
                assert_eq!(announced, case.kept);
                if let Some(kept) = &case.kept {
                    assert!(got == case.payload[kept.skip..kept.skip + kept.take], "{kept:?}");
                }
                return Some(times);
            }
        }
        None
    }
}

/// Covers: TCP-2
#[test]
fn options_of_every_kind_length_and_header() {
    let seed = bench::seed("seg_rx options");
    let mut b = Bench::new(seed);
    for offset in 5..=15usize {
        for kind in 0..=255u8 {
            for length in [0, 1, 2, 3, 4, 5, 6, 12, 20, 36, 40, 68, 132, 255] {
                let room = 4 * (offset - 5);
                let mut options: Vec<_> = (0..room).map(|_| 1).collect();
                if room > 0 {
                    // anywhere; what is beyond it is anything, or padding, so that a wrong length is not made good by a broken list
                    let at = b.rng.random_range(0..room);
                    let rest = if b.rng.random() { octets(&mut b.rng, room - at) } else { vec![1; room - at] };
                    options[at..].copy_from_slice(&rest);
                    options[at] = kind;
                    if at + 1 < room {
                        options[at + 1] = length;
                    }
                }
                let n = b.rng.random_range(0..12);
                let payload = octets(&mut b.rng, n);
                let case = case(&mut b.rng.clone(), &options, payload, 0);
                b.rng.random::<u64>();
                b.run(&case, 200).expect("no list makes it hang");
            }
        }
    }
}

/// Lists of well-formed options, in any order, with and without end.
///
/// Covers: TCP-2
#[test]
fn the_last_mss_of_a_list_counts_and_0_is_1() {
    let seed = bench::seed("seg_rx mss");
    let mut b = Bench::new(seed);
    let mut seen = [0u32; 3];
    for round in 0..6000 {
        (b.valid, b.ready, b.judge) = [(1.0, 1.0, 1.0), (0.6, 0.6, 0.3)][round % 2];
        let room = 4 * b.rng.random_range(1..=10);
        let mut options = vec![];
        while options.len() < room {
            let left = room - options.len();
            match b.rng.random_range(0..8) {
                0 if left < 5 => options.resize(room, 0),
                1..=3 if left >= 4 => {
                    let value = [0, 1, 536, 1460, b.rng.random()][b.rng.random_range(0..5)];
                    options.extend(tcp::mss_option(value));
                }
                4 if left >= 10 => {
                    options.extend([8, 10]);
                    options.extend(octets(&mut b.rng, 8));
                }
                5 if left >= 2 => {
                    let data = b.rng.random_range(0..=left - 2);
                    options.extend([b.rng.random_range(3..=255), data as u8 + 2]);
                    options.extend(octets(&mut b.rng, data));
                }
                _ => options.push(1),
            }
        }
        let case = case(&mut b.rng.clone(), &options, vec![], 6);
        b.rng.random::<u64>();
        assert!(!case.told.bad_options, "well-formed");
        seen[usize::from(case.told.mss > 0) + usize::from(case.told.mss > 1)] += 1;
        b.run(&case, 400).expect("ends");
    }
    assert!(seen.iter().all(|n| *n > 500), "none, 1 and more: {seen:?}");
}

/// Any skip and take of any payload, with all reserved bits, urgent flags and pointers, and padding in which nothing is data.
///
/// Covers: ETH-3, TCP-26, TCP-31
#[test]
fn payload_is_what_the_verdict_takes_and_nothing_else() {
    let seed = bench::seed("seg_rx payload");
    let mut b = Bench::new(seed);
    for round in 0..4000usize {
        (b.valid, b.ready, b.judge) = [(1.0, 1.0, 1.0), (0.5, 1.0, 0.2), (1.0, 0.4, 1.0), (0.7, 0.7, 0.5)][round % 4];
        let most = [20, 1460, 64, 8961][b.rng.random_range(0..if round % 50 == 0 { 4 } else { 3 })];
        let len = b.rng.random_range(0..most);
        let payload = octets(&mut b.rng, len);
        let options = vec![1; 4 * b.rng.random_range(0..=10)];
        let pad = [0, 6, b.rng.random_range(0..40)][b.rng.random_range(0..3)];
        let case = case(&mut b.rng.clone(), &options, payload, pad);
        b.rng.random::<u64>();
        b.run(&case, 20_000).expect("ends");
    }
    // as long as a datagram can be
    (b.valid, b.ready, b.judge) = (1.0, 1.0, 1.0);
    for len in [0x4000, 0x8000, 0xffff - 60] {
        let payload = octets(&mut b.rng, len);
        for skip in [0, 1, len / 2, len - 1] {
            let mut case = case(&mut b.rng.clone(), &[1; 20], payload.clone(), 0);
            case.kept = Some(Kept { index: 2, skip, take: len - skip, first: false, passive: true, full: true });
            b.run(&case, 20_000).expect("ends");
        }
    }
    // each alignment of each header with each end
    for (offset, skip, take) in (0..=10).flat_map(|o| (0..9).flat_map(move |s| (1..26).map(move |t| (o, s, t)))) {
        for behind in [0, 1, 9] {
            let payload = octets(&mut b.rng, skip + take + behind);
            let mut case = case(&mut b.rng.clone(), &vec![1; 4 * offset], payload, 0);
            b.rng.random::<u64>();
            case.kept = Some(Kept { index: 9, skip, take, first: true, passive: false, full: false });
            b.run(&case, 200).expect("ends");
        }
    }
}

#[test]
fn an_option_list_costs_few_clocks_and_payload_passes_at_a_beat_a_clock() {
    let mut b = Bench::new(1);
    let timestamps = [&[1u8, 1, 8, 10][..], &[7; 8]].concat();
    let mss = tcp::mss_option(1460);
    let linux = [&mss[..], &[4, 2, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 3, 7]].concat();
    for (name, options, most) in
        [("none", &[][..], 8), ("MSS", &mss, 15), ("timestamps", &timestamps, 16), ("SYN", &linux, 23), ("pad", &[1; 40], 55)]
    {
        let mut case = case(&mut b.rng.clone(), options, vec![0xab; 1460], 0);
        case.kept = Some(Kept { index: 1, skip: 0, take: 1460, first: false, passive: false, full: false });
        let t = b.run(&case, 1000).expect("ends");
        println!("{name}: segment {}, announced {}, payload {}..={}, end {}", t.segment, t.announced, t.first, t.last, t.drained);
        assert!(t.segment <= most, "{name}: {} clocks", t.segment);
        assert!(t.first <= t.announced + 3);
        assert_eq!(t.last - t.first + 1, 1460u64.div_ceil(8), "{name}: no gaps");
        case.kept = None;
        let t = b.run(&case, 1000).expect("ends");
        assert!(t.drained - t.segment <= 1520 / 8, "{name}: drained at a beat a clock");
    }
}

/// Frames behind each other, an engine that takes `think` clocks to a verdict, and a receiver that takes payloads whenever it can: segments in order, each payload whole and its own.
/// What was told while a payload of a frame before passed; clocks of a frame.
fn stream(b: &mut Bench, cases: &[Case], think: u64) -> (usize, u64) {
    let (m, rng) = (&mut b.m, &mut b.rng);
    let mut wire: std::collections::VecDeque<_> =
        cases.iter().enumerate().flat_map(|(n, case)| beats(&case.frame).into_iter().map(move |beat| (n, beat))).collect();
    let (mut told, mut judged, mut due, mut done, mut early) = (0, 0, 0, 0, 0);
    let (mut offered, mut passing, mut got) = (false, None::<usize>, vec![]);
    let (mut clock, mut first) = (0, 0);
    let kept: Vec<_> = (0..cases.len()).filter(|n| cases[*n].kept.is_some()).collect();
    while !(wire.is_empty() && judged == cases.len() && done == kept.len()) {
        clock += 1;
        assert!(clock < 20_000 + 3000 * cases.len() as u64, "{told} told, {judged} judged, {done} passed");
        offered |= !wire.is_empty() && rng.random_bool(b.valid);
        m.inp_valid.set(offered);
        if let Some((n, beat)) = wire.front() {
            let case = &cases[*n];
            m.inp_beat_data.set(beat.data);
            m.inp_beat_keep.set(beat.keep);
            m.inp_beat_last.set(beat.last.into());
            m.meta_ip_len.set(case.total);
            m.meta_data_offset.set(case.offset);
            m.meta_seq.set(case.told.seq);
            m.meta_dst_ip.set(case.told.addresses[0]);
        }
        m.segment_ready.set(told == judged && rng.random_bool(b.ready));
        m.verdict_valid.set(told > judged && clock >= due);
        if let Some(case) = cases.get(judged) {
            let kept = case.kept.clone().unwrap_or(Kept { index: 3, skip: 5, take: 7, first: true, passive: true, full: true });
            m.verdict_data_keep.set(case.kept.is_some().into());
            m.verdict_data_index.set(kept.index);
            m.verdict_data_skip.set(kept.skip as u64);
            m.verdict_data_take.set(kept.take as u64);
        }
        m.payload_meta_ready.set(passing.is_none() && rng.random_bool(b.ready));
        m.out_ready.set(rng.random_bool(b.ready));
        m.eval();
        assert!(!m.payload_meta_valid.get() || passing.is_none(), "announced while another passes");
        if m.out_valid.get() && m.out_ready.get() {
            let n = passing.expect("announced");
            push(&mut got, m.out_beat_data.get(), m.out_beat_keep.get());
            if m.out_beat_last.bit() {
                let kept = cases[n].kept.as_ref().expect("kept");
                assert!(got == cases[n].payload[kept.skip..kept.skip + kept.take], "payload {n}");
                got.clear();
                (passing, done) = (None, done + 1);
            }
        }
        if m.payload_meta_valid.get() && m.payload_meta_ready.get() {
            let n = kept[done];
            assert!(n < judged);
            let case = cases[n].kept.as_ref().expect("kept");
            assert_eq!((m.payload_meta_data_index.get(), m.payload_meta_data_len.get()), (case.index, case.take as u64));
            passing = Some(n);
            if done == 0 {
                first = clock;
            }
        }
        if m.verdict_valid.get() && m.verdict_ready.get() {
            judged += 1;
        } else if told > judged {
            let case = &cases[judged].told;
            let now = (m.segment_data_seq.get(), m.segment_data_len.get(), m.segment_data_tuple_local_ip.get());
            assert_eq!(now, (case.seq, case.len, case.addresses[0]), "stays until the verdict was taken");
        }
        if m.segment_valid.get() && m.segment_ready.get() {
            let case = &cases[told].told;
            assert_eq!((m.segment_data_seq.get(), m.segment_data_len.get()), (case.seq, case.len), "segment {told}");
            early += usize::from(passing.is_some());
            due = clock + think;
            told += 1;
        }
        if offered && m.inp_ready.get() {
            wire.pop_front();
            offered = false;
        }
        m.tick();
    }
    m.inp_valid.set(false);
    m.verdict_valid.set(false);
    (early, (clock - first) / cases.len() as u64)
}

/// A segment is told and judged while the payload before it passes: full frames come through as fast as the wire brings them, which takes 192.25 clocks for each.
#[test]
fn frames_of_a_stream_overlap() {
    let seed = bench::seed("seg_rx stream");
    let mut b = Bench::new(seed);
    let full = |b: &mut Bench| {
        let mut case = case(&mut b.rng.clone(), &[], octets(&mut b.rng, 1460), 0);
        case.kept = Some(Kept { index: 1, skip: 0, take: 1460, first: false, passive: false, full: true });
        case
    };
    let cases: Vec<_> = (0..50).map(|_| full(&mut b)).collect();
    let (early, clocks) = stream(&mut b, &cases, 60);
    println!("{early} of 50 told while another passed, {clocks} clocks a frame");
    assert!(early >= 48, "{early} of 50");
    assert!(clocks <= 191, "{clocks} clocks a frame");
    // frames that are longer than the queue, whose verdict comes when it has long been full
    let cases: Vec<_> = (0..6)
        .map(|n| {
            let len = if n % 3 == 2 { 100 } else { 8961 };
            let mut case = case(&mut b.rng.clone(), &[], octets(&mut b.rng, len), 0);
            b.rng.random::<u64>();
            case.kept = (n % 3 != 1).then(|| Kept { index: n, skip: 3, take: len - 3, first: false, passive: false, full: true });
            case
        })
        .collect();
    stream(&mut b, &cases, 2000);
    for round in 0..40usize {
        (b.valid, b.ready) = [(1.0, 1.0), (0.5, 1.0), (1.0, 0.4), (0.8, 0.8)][round % 4];
        let most = [20, 1460, 300][round % 3];
        let cases: Vec<_> = (0..60)
            .map(|_| {
                let len = b.rng.random_range(0..most);
                let payload = octets(&mut b.rng, len);
                let options = vec![1; 4 * b.rng.random_range(0..=10) * b.rng.random_range(0..2)];
                let case = case(&mut b.rng.clone(), &options, payload, 6);
                b.rng.random::<u64>();
                case
            })
            .collect();
        let think = b.rng.random_range(0..40);
        stream(&mut b, &cases, think);
    }
}

#[test]
fn a_reset_at_any_time_leaves_a_working_block() {
    let seed = bench::seed("seg_rx reset");
    let mut b = Bench::new(seed);
    let options = [&tcp::mss_option(1000)[..], &[3, 3, 7, 1]].concat();
    for cut in 1..90 {
        for ready in [1.0, 0.4] {
            b.ready = ready;
            let mut case = case(&mut b.rng.clone(), &options, vec![cut as u8; 200], 0);
            b.rng.random::<u64>();
            case.kept = Some(Kept { index: 4, skip: 3, take: 150, first: true, passive: true, full: true });
            b.run(&case, cut);
            b.m.reset.set(true);
            b.m.inp_valid.set(false);
            b.m.verdict_valid.set(false);
            b.m.tick();
            b.m.reset.set(false);
            b.run(&case, 2000).expect("as if nothing had been");
        }
    }
}
