// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpa::rx` against [`Conn`], a model that looks at all octets of a connection at once and has its CRC from `ironwarp-wire`. A reader in the place of `rdma::rx` takes what is told,
//! compares the slots and gives them back, while payloads go on.
mod net;
use ironwarp_models::{bench, mpa_rx, mpa_rx_small, Dut};
use ironwarp_wire::fpdu;
use net::{beats, octets, Octets};
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

/// In the order of `FpduNote`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Whole,
    BadCrc,
    BadLength,
}
const NOTES: [Note; 3] = [Note::Whole, Note::BadCrc, Note::BadLength];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    note: Note,
    index: u16,
    slot: u8,
    len: u16,
}

/// `index`, `true` to bind or `false` to unbind, CRC.
type BindMessage = (u16, bool, bool);

#[derive(Clone, Default)]
struct Inputs {
    reset: bool,
    payload: Option<(u16, u16)>,
    beat: Option<Octets>,
    consumed_ready: bool,
    bind: Option<BindMessage>,
    unbound_ready: bool,
    fpdu_ready: bool,
    slot_address: u16,
    free: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Outputs {
    ready: bool,
    payload_ready: bool,
    beat_ready: bool,
    consumed: Option<u16>,
    bind_ready: bool,
    /// The index, and whether an FPDU of it was there in part.
    unbound: Option<(u16, bool)>,
    fpdu: Option<Told>,
    slot_data: u64,
    free_ready: bool,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    fpdus: u64,
    crc_errors: u64,
    bad_length: u64,
    no_slot: u64,
}

impl Counts {
    fn add(&mut self, c: Counts) {
        self.fpdus += c.fpdus;
        self.crc_errors += c.crc_errors;
        self.bad_length += c.bad_length;
        self.no_slot += c.no_slot;
    }
}

trait Pins: Dut {
    const CONNECTIONS: u16;
    const SLOTS: usize;
    /// Octets of a slot; each begins at a multiple of the next power of two.
    const SLOT: usize;
    fn make(seed: u64) -> Self;
    fn drive(&mut self, i: &Inputs);
    fn outputs(&self) -> Outputs;
}

macro_rules! pins {
    ($module:ident, $connections:expr, $slots:expr, $slot:expr) => {
        impl Pins for $module::Model {
            const CONNECTIONS: u16 = $connections;
            const SLOTS: usize = $slots;
            const SLOT: usize = $slot;
            fn make(seed: u64) -> Self {
                Self::new(seed)
            }
            fn drive(&mut self, i: &Inputs) {
                self.reset.set(i.reset);
                self.payload_meta_valid.set(i.payload.is_some());
                if let Some((index, len)) = i.payload {
                    self.payload_meta_data_index.set(index.into());
                    self.payload_meta_data_len.set(len.into());
                }
                self.inp_valid.set(i.beat.is_some());
                if let Some(beat) = i.beat {
                    self.inp_beat_data.set(beat.data);
                    self.inp_beat_keep.set(beat.keep);
                    self.inp_beat_last.set(beat.last.into());
                }
                self.consumed_ready.set(i.consumed_ready);
                self.bind_valid.set(i.bind.is_some());
                if let Some((index, bind, crc)) = i.bind {
                    self.bind_data_op.set((!bind).into());
                    self.bind_data_index.set(index.into());
                    self.bind_data_crc.set(crc.into());
                }
                self.unbound_ready.set(i.unbound_ready);
                self.fpdu_ready.set(i.fpdu_ready);
                self.slot_address.set(i.slot_address.try_into().expect("an address of the slot memory"));
                self.free_valid.set(i.free.is_some());
                if let Some(slot) = i.free {
                    self.free_data.set(slot);
                }
            }
            fn outputs(&self) -> Outputs {
                Outputs {
                    ready: self.ready.get(),
                    payload_ready: self.payload_meta_ready.get(),
                    beat_ready: self.inp_ready.get(),
                    consumed: self.consumed_valid.get().then(|| self.consumed_data.get()),
                    bind_ready: self.bind_ready.get(),
                    unbound: self.unbound_valid.get().then(|| (self.unbound_data_index.get() as u16, self.unbound_data_torn.bit())),
                    fpdu: self.fpdu_valid.get().then(|| Told {
                        note: NOTES[self.fpdu_data_note.get() as usize],
                        index: self.fpdu_data_index.get() as u16,
                        slot: self.fpdu_data_slot.get() as u8,
                        len: self.fpdu_data_len.get() as u16,
                    }),
                    slot_data: self.slot_data.get(),
                    free_ready: self.free_ready.get(),
                    counts: Counts {
                        fpdus: self.cnt_mpa_fpdus_in.get().into(),
                        crc_errors: self.cnt_mpa_crc_errors.get().into(),
                        bad_length: self.cnt_mpa_bad_length.get().into(),
                        no_slot: self.cnt_mpa_no_slot.get().into(),
                    },
                }
            }
        }
    };
}
pins!(mpa_rx, 32, 16, 1536);
pins!(mpa_rx_small, 8, 4, 256);

/// What is told, the octets of the FPDU, and how many octets of the payload that needs.
type Outcome = (Note, Vec<u8>, usize);

/// One connection of the model. It is started if it has 8 octets of an FPDU or more.
#[derive(Clone, Debug, Default)]
struct Conn {
    live: bool,
    deaf: bool,
    crc: bool,
    octets: Vec<u8>,
}

impl Conn {
    fn started(&self) -> bool {
        self.octets.len() >= 8
    }
    /// Octets taken over, what is told, and whether there was no slot.
    /// `others` connections are started, of `most` that may be.
    fn payload(&mut self, payload: &[u8], slot: usize, others: usize, most: usize) -> (usize, Vec<Outcome>, bool) {
        let mut told = vec![];
        if !self.live {
            return (0, told, false);
        }
        if self.deaf {
            return (payload.len(), told, false);
        }
        let had = self.octets.len();
        let all = [&self.octets[..], payload].concat();
        let mut at = 0;
        loop {
            let rest = &all[at..];
            if rest.len() < 8 {
                break;
            }
            let ulpdu = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
            let total = fpdu::wire_len(ulpdu, None);
            if total > slot || ulpdu < 14 || ulpdu < 18 && rest[2] & 0x80 == 0 {
                told.push((Note::BadLength, rest[..2].to_vec(), (at + 8).saturating_sub(had)));
                self.deaf = true;
                break;
            }
            if rest.len() < total {
                break;
            }
            let (covered, crc) = rest[..total].split_at(total - 4);
            let good = !self.crc || crc == fpdu::crc32c(covered).to_le_bytes();
            at += total;
            told.push((if good { Note::Whole } else { Note::BadCrc }, rest[..total].to_vec(), at - had));
            if !good {
                self.deaf = true;
                break;
            }
        }
        if self.deaf {
            self.octets.clear();
            return (payload.len(), told, false);
        }
        if all.len() - at >= 8 && !(at == 0 && had >= 8) && others == most {
            if at > 0 || had == 0 {
                self.octets.clear();
            }
            return (at.saturating_sub(had), told, true);
        }
        self.octets = all[at..].to_vec();
        (payload.len(), told, false)
    }
}

/// What must be told: by whom, and not before so many octets of payload number `payload` were taken.
#[derive(Debug)]
struct Expected {
    note: Note,
    index: u16,
    octets: Vec<u8>,
    payload: u64,
    needs: usize,
}

/// A slot that is compared, word by word.
struct Reading {
    slot: u8,
    octets: Vec<u8>,
    word: usize,
    asked: bool,
}

struct Bench<D: Pins> {
    d: D,
    rng: ChaCha8Rng,
    i: Inputs,
    /// Chance that who takes or gives something is late.
    busy: f64,
    /// The reader takes what is told; it gives slots back.
    takes: bool,
    frees: bool,
    /// Clocks that it keeps a slot at most.
    keeps: u64,
    clocks: u64,
    counts: Counts,
    model_counts: Counts,
    model: Vec<Conn>,
    expected: VecDeque<Expected>,
    reading: Option<Reading>,
    /// Slots that the reader has, and from when on it gives them back.
    slots: BTreeMap<u8, u64>,
    /// Payloads so far, and octets taken of the last one.
    payloads: u64,
    taken: usize,
}

impl<D: Pins> Bench<D> {
    fn new() -> Self {
        let seed = bench::seed("mpa_rx");
        let mut b = Bench {
            d: D::make(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            i: Inputs::default(),
            busy: 0.0,
            takes: true,
            frees: true,
            keeps: 0,
            clocks: 0,
            counts: Counts::default(),
            model_counts: Counts::default(),
            model: vec![],
            expected: VecDeque::new(),
            reading: None,
            slots: BTreeMap::new(),
            payloads: 0,
            taken: 0,
        };
        b.reset();
        b
    }
    fn reset(&mut self) {
        self.i = Inputs { reset: true, ..Inputs::default() };
        self.model = vec![Conn::default(); usize::from(D::CONNECTIONS)];
        self.expected.clear();
        self.reading = None;
        self.slots.clear();
        for _ in 0..3 {
            self.d.drive(&self.i);
            self.d.eval();
            self.d.tick();
        }
        self.i.reset = false;
        self.model_counts = self.counts;
        let mut clearing = 0;
        loop {
            self.i.payload = Some((0, 1));
            self.i.free = None;
            let o = self.clock();
            self.i.payload = None;
            if o.ready {
                assert!(o.payload_ready);
                break;
            }
            assert!(!o.payload_ready && !o.bind_ready && !o.free_ready && !o.beat_ready);
            clearing += 1;
        }
        assert_eq!(clearing, usize::from(D::CONNECTIONS).max(D::SLOTS));
        // that clock took the payload: of an index that is not bound nothing is taken over
        self.i.beat = beats(&[0]).pop();
        self.i.consumed_ready = true;
        let mut answered = None;
        loop {
            let o = self.clock();
            answered = answered.or(o.consumed);
            if o.beat_ready {
                self.i.beat = None;
            }
            if o.payload_ready {
                break;
            }
        }
        assert_eq!(answered, Some(0));
        self.i.consumed_ready = false;
    }
    /// One clock of the reader and of the block.
    fn clock(&mut self) -> Outputs {
        self.i.fpdu_ready = self.takes && self.reading.is_none() && !self.rng.random_bool(self.busy);
        if let Some(reading) = &self.reading {
            self.i.slot_address = (usize::from(reading.slot) * D::SLOT.next_power_of_two() / 8 + reading.word) as u16;
        }
        if self.i.free.is_none() && self.frees {
            self.i.free = self.slots.iter().find(|(_, due)| **due <= self.clocks).map(|(slot, _)| *slot);
        }
        self.d.drive(&self.i);
        self.d.eval();
        let o = self.d.outputs();
        if let Some(r) = &mut self.reading {
            if r.asked {
                let at = 8 * (r.word - 1);
                let want = &r.octets[at..r.octets.len().min(at + 8)];
                assert_eq!(&o.slot_data.to_le_bytes()[..want.len()], want, "word {} of slot {}", r.word - 1, r.slot);
            }
            r.asked = true;
            r.word += 1;
            if 8 * (r.word - 1) >= r.octets.len() {
                let due = self.clocks + if self.keeps == 0 { 0 } else { self.rng.random_range(0..self.keeps) };
                self.slots.insert(r.slot, due);
                self.reading = None;
            }
        }
        if let (Some(_), Some(e)) = (o.fpdu, self.expected.front()) {
            assert!(e.payload < self.payloads || self.taken >= e.needs, "told after {} octets: {e:?}", self.taken);
        }
        if let (Some(told), true) = (o.fpdu, self.i.fpdu_ready) {
            let e = self.expected.pop_front().unwrap_or_else(|| panic!("nothing is to be told, but {told:?}"));
            let len = u16::from_be_bytes([e.octets[0], e.octets[1]]);
            assert_eq!((told.note, told.index, told.len), (e.note, e.index, len));
            if e.note == Note::Whole {
                assert!(usize::from(told.slot) < D::SLOTS && !self.slots.contains_key(&told.slot), "slot {} is nobody else's", told.slot);
                self.reading = Some(Reading { slot: told.slot, octets: e.octets, word: 0, asked: false });
            }
        }
        if self.i.free.is_some() && o.free_ready {
            self.slots.remove(&self.i.free.take().expect("given"));
        }
        self.counts.add(o.counts);
        self.d.tick();
        self.clocks += 1;
        o
    }
    /// Takes one more message on `bind` to its answer.
    fn bind(&mut self, message: BindMessage) {
        let (index, bind, crc) = message;
        self.i.bind = Some(message);
        while !self.clock().bind_ready {}
        self.i.bind = None;
        if !bind {
            let c = &self.model[usize::from(index)];
            let torn = c.live && !c.deaf && !c.octets.is_empty();
            let end = self.clocks + 5000;
            loop {
                assert!(self.clocks < end, "an Unbind is answered");
                self.i.unbound_ready = !self.rng.random_bool(self.busy);
                let o = self.clock();
                if let Some(answered) = o.unbound {
                    assert_eq!(answered, (index, torn));
                    assert!(self.expected.is_empty() && o.fpdu.is_none(), "all that was told of it was taken");
                    if self.i.unbound_ready {
                        break;
                    }
                }
            }
            self.i.unbound_ready = false;
        }
        self.model[usize::from(index)] = Conn { live: bind, crc: bind && crc, ..Conn::default() };
    }
    /// A new connection.
    fn anew(&mut self, index: u16, crc: bool) {
        if self.model[usize::from(index)].live {
            self.bind((index, false, false));
        }
        self.bind((index, true, crc));
    }
    /// Brings a payload to the block and to the model, and compares; octets taken over. Ends when the next one may come.
    fn payload(&mut self, index: u16, payload: &[u8]) -> usize {
        let others = (0..).zip(&self.model).filter(|(i, c)| *i != index && c.started()).count();
        let c = &self.model[usize::from(index)];
        let sure = !c.live || c.deaf || c.started() || others < D::SLOTS - 1;
        let (consumed, told, no_slot) = self.model[usize::from(index)].payload(payload, D::SLOT, others, D::SLOTS - 1);
        self.payloads += 1;
        self.taken = 0;
        for (note, octets, needs) in told {
            let counter = match note {
                Note::Whole => &mut self.model_counts.fpdus,
                Note::BadCrc => &mut self.model_counts.crc_errors,
                Note::BadLength => &mut self.model_counts.bad_length,
            };
            *counter += 1;
            self.expected.push_back(Expected { note, index, octets, payload: self.payloads, needs });
        }
        self.model_counts.no_slot += u64::from(no_slot);
        self.i.payload = Some((index, payload.len() as u16));
        let mut beats: VecDeque<_> = beats(payload).into();
        let end = self.clocks + 20_000 + 20 * self.keeps;
        let (mut taken_at, mut answered) = (0, false);
        loop {
            assert!(self.clocks < end, "a payload is answered: {payload:02x?}");
            // what is offered stays
            if self.i.beat.is_none() && !self.rng.random_bool(self.busy) {
                // only valid octets mean something
                self.i.beat = beats.front().map(|b| Octets { data: b.data | self.rng.next_u64() & !lanes(b.keep), ..*b });
            }
            self.i.consumed_ready = !self.rng.random_bool(self.busy);
            let o = self.clock();
            if self.i.payload.is_some() && o.payload_ready {
                self.i.payload = None;
                taken_at = self.clocks;
            } else if answered && o.payload_ready {
                assert!(beats.is_empty() && self.i.beat.is_none(), "all of it was taken");
                assert!(self.expected.len() <= usize::from(o.fpdu.is_some()), "{:?} is late", self.expected);
                assert_eq!(self.counts, self.model_counts);
                return consumed;
            }
            if self.i.beat.is_some() && o.beat_ready {
                self.taken += self.i.beat.take().expect("offered").keep.count_ones() as usize;
                beats.pop_front();
            }
            if let Some(answer) = o.consumed {
                assert!(!answered && self.i.payload.is_none(), "one answer to each");
                assert_eq!(usize::from(answer), consumed, "index {index}, {:?}", self.model[usize::from(index)]);
                if !sure {
                    assert!(beats.is_empty() && self.i.beat.is_none(), "answered after its end");
                    assert!(self.expected.len() <= usize::from(o.fpdu.is_some()), "{:?} is late", self.expected);
                }
                answered = self.i.consumed_ready;
            }
            assert!(
                !sure || answered || o.consumed.is_some() || self.i.payload.is_some() || self.clocks < taken_at + 3,
                "answered at once"
            );
        }
    }
    /// Octets in pieces that end at `cuts` (none ends before the one before), all of which must be taken over.
    fn pieces(&mut self, index: u16, octets: &[u8], cuts: &[usize]) {
        let mut from = 0;
        for to in cuts.iter().copied().chain([octets.len()]) {
            if to > from {
                assert_eq!(self.payload(index, &octets[from..to]), to - from);
                from = to;
            }
        }
    }
    /// Until the reader has taken all that was told and has given back all slots.
    fn settle(&mut self) {
        let end = self.clocks + 5000 + 2 * self.keeps;
        while !self.expected.is_empty() || self.reading.is_some() || !self.slots.is_empty() {
            assert!(self.clocks < end, "all that is expected is told: {:?}", self.expected);
            self.clock();
        }
        for _ in 0..5 {
            assert!(self.clock().fpdu.is_none());
        }
    }
    fn counted(&mut self, scenario: impl FnOnce(&mut Self)) -> Counts {
        let c = self.counts;
        scenario(self);
        self.settle();
        let d = self.counts;
        Counts {
            fpdus: d.fpdus - c.fpdus,
            crc_errors: d.crc_errors - c.crc_errors,
            bad_length: d.bad_length - c.bad_length,
            no_slot: d.no_slot - c.no_slot,
        }
    }
    fn fpdu(&mut self, ulpdu: usize) -> Vec<u8> {
        random_fpdu(&mut self.rng, ulpdu)
    }
}

fn lanes(keep: u64) -> u64 {
    (0..8).filter(|i| keep >> i & 1 == 1).fold(0, |mask, i| mask | 0xff << (8 * i))
}

fn written(ulpdu: &[u8]) -> Vec<u8> {
    let mut out = vec![0; fpdu::wire_len(ulpdu.len(), None)];
    let mut writer = fpdu::Writer::new(&mut out, ulpdu.len(), None).expect("room");
    writer.put(ulpdu).expect("as announced");
    assert_eq!(writer.finish(true), Ok(out.len()));
    out
}

/// With a ULPDU of that many random octets; tagged if it is too short for anything else.
fn random_fpdu(rng: &mut impl RngCore, ulpdu: usize) -> Vec<u8> {
    let mut body = octets(rng, ulpdu);
    if ulpdu < 18 {
        body[0] |= 0x80;
    }
    written(&body)
}

/// The worked FPDUs without markers, one after the other.
fn examples() -> Vec<Vec<u8>> {
    let rows = include_str!("../../../tests/golden/fpdu.tsv").lines().filter(|line| !line.starts_with('#'));
    let columns = rows.map(|line| line.split('\t').collect::<Vec<_>>()).filter(|row| row[1] == "-");
    columns.map(|row| (0..row[2].len() / 2).map(|n| u8::from_str_radix(&row[2][2 * n..2 * n + 2], 16).expect("hex")).collect()).collect()
}

const ALL: Counts = Counts { fpdus: 0, crc_errors: 0, bad_length: 0, no_slot: 0 };

/// All cuts in two of all worked examples, and all of a stream of five short FPDUs in two and three, octet by octet, in one, on connections in turn.
/// Covers: MPA-25, MPA-30, MPA-31
#[test]
fn fpdus_come_out_however_tcp_cuts_them() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    for index in 0..8 {
        b.anew(index, true);
    }
    let worked = examples();
    assert!(worked.len() > 10);
    for (number, whole) in worked.iter().enumerate() {
        let counts = b.counted(|b| (1..whole.len()).for_each(|cut| b.pieces(number as u16 % 8, whole, &[cut])));
        assert_eq!(counts, Counts { fpdus: whole.len() as u64 - 1, ..ALL });
    }
    let stream = [14, 15, 18, 16, 21].map(|n| b.fpdu(n)).concat();
    let n = stream.len();
    let mut cuts: Vec<Vec<usize>> =
        vec![vec![], (1..n).collect(), (1..n).step_by(2).collect(), (1..n).step_by(3).collect(), (1..n).step_by(7).collect()];
    cuts.extend((1..n).flat_map(|i| (i..n).map(move |j| if i == j { vec![i] } else { vec![i, j] })));
    let streams = cuts.len() as u64;
    let counts = b.counted(|b| {
        for (i, cuts) in cuts.iter().enumerate() {
            b.busy = [0.0, 0.0, 0.3][i % 3];
            b.pieces(i as u16 % 8, &stream, cuts);
        }
    });
    assert_eq!(counts, Counts { fpdus: 5 * streams, ..ALL });
}

/// FPDUs of all lengths up to what a slot holds, each followed at once by the next, so that one begins at every octet of a beat and of a segment; segments
/// of all sizes up to 40, with FPDUs of other connections between.
/// Covers: MPA-31
#[test]
fn an_fpdu_may_begin_and_end_at_any_octet() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    b.anew(2, true);
    b.anew(5, true);
    let stream: Vec<u8> = (14..=250).flat_map(|n| b.fpdu(n)).collect();
    for size in 1..=40 {
        let other = b.fpdu(14 + size);
        let counts = b.counted(|b| {
            for (i, piece) in stream.chunks(size).enumerate() {
                assert_eq!(b.payload(2, piece), piece.len());
                if i % 40 == 0 {
                    b.pieces(5, &other, &[size % 16 + 1]);
                }
            }
        });
        assert_eq!(counts.fpdus, 237 + stream.len().div_ceil(size).div_ceil(40) as u64);
    }
}

/// Segments as siw cuts them: the CRC alone in 4 octets, header, payload and trailer apart.
/// Covers: MPA-31
#[test]
fn a_crc_alone_in_a_segment_completes_its_fpdu() {
    let mut b = Bench::<mpa_rx::Model>::new();
    b.anew(31, true);
    let counts = b.counted(|b| {
        for n in [14, 15, 16, 17, 18, 19, 20, 21, 22, 60, 1441, 1446, 1448, 1530] {
            let whole = b.fpdu(n);
            let end = whole.len();
            b.pieces(31, &whole, &[end - 4]);
            b.pieces(31, &whole, &[16, end - 4]);
            b.pieces(31, &whole, &[20.min(end - 5), end - 4]);
            b.pieces(31, &whole, &[end - 4, end - 3, end - 2, end - 1]);
        }
    });
    assert_eq!(counts, Counts { fpdus: 14 * 4, ..ALL });
}

/// Each octet of FPDUs of all forms wrong in turn: told once and not as a whole one, in one piece and cut. What follows is taken over and never told, to the end of the connection; other
/// connections go on, and the next connection of the index.
/// Covers: MPA-21, MPA-24, MPA-28, MPA-36, MPA-37
#[test]
fn a_wrong_octet_anywhere_makes_a_connection_deaf() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    b.anew(7, true);
    for n in [14, 15, 16, 17, 18, 43] {
        let good = b.fpdu(n);
        let other = b.fpdu(30);
        for at in 2..good.len() {
            let mut bad = good.clone();
            bad[at] ^= b.rng.random_range(1..=255_u8);
            if at == 2 && n < 18 {
                // T itself makes another length wrong
                bad[at] |= 0x80;
                bad[at] ^= u8::from(bad[at] == good[at]);
            }
            for cuts in [vec![], vec![at], vec![at.max(8).min(bad.len() - 1), bad.len() - 1]] {
                b.anew(3, true);
                let counts = b.counted(|b| {
                    b.pieces(3, &[&good[..], &bad].concat(), &cuts);
                    b.pieces(3, &good, &[]);
                    b.pieces(3, &good, &[at]);
                    b.pieces(7, &other, &[at % 8 + 1]);
                });
                assert_eq!(counts, Counts { fpdus: 2, crc_errors: 1, ..ALL }, "octet {at} of {n}");
            }
            // the very first
            b.anew(3, true);
            assert_eq!(b.counted(|b| b.pieces(3, &[&bad[..], &good].concat(), &[])), Counts { crc_errors: 1, ..ALL });
        }
    }
}

/// Each bit of the CRC field, and what makes a single bit of the remainder wrong: 32 steps of the CRC back. The CRC comes in a step of 8 octets or of 4.
///
/// Covers: MPA-21
#[test]
fn every_bit_of_the_remainder_counts() {
    fn run<D: Pins>() {
        let mut b = Bench::<D>::new();
        let remainder = |bit: u32| (0..32).fold(1u32 << bit, |r, _| if r >> 31 == 1 { (r ^ 0x82f6_3b78) << 1 | 1 } else { r << 1 });
        for n in [14, 18, 22, 43] {
            let good = b.fpdu(n);
            for wrong in (0..32).map(|bit| 1u32 << bit).chain((0..32).map(remainder)) {
                let mut bad = good.clone();
                let at = bad.len() - 4;
                bad[at..].iter_mut().zip(wrong.to_le_bytes()).for_each(|(octet, wrong)| *octet ^= wrong);
                b.anew(3, true);
                assert_eq!(b.counted(|b| b.pieces(3, &bad, &[])), Counts { crc_errors: 1, ..ALL }, "{wrong:#x} behind {n}");
            }
        }
    }
    run::<mpa_rx_small::Model>();
    run::<mpa_rx::Model>();
}

/// Covers: MPA-23, MPA-24
#[test]
fn without_crc_its_field_is_not_looked_at() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    b.anew(0, false);
    b.anew(1, true);
    let counts = b.counted(|b| {
        for i in 0..300 {
            let n = b.rng.random_range(14..60);
            let mut any = b.fpdu(n);
            let end = any.len();
            b.pieces(1, &any, &[i % 19 + 1]);
            for octet in &mut any[end - 4..] {
                *octet = b.rng.random();
            }
            b.pieces(0, &any, &[i % 19 + 1]);
        }
    });
    assert_eq!(counts, Counts { fpdus: 600, ..ALL });
}

/// Covers: MPA-27
#[test]
fn pad_may_be_anything_that_the_crc_covers() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    b.anew(4, true);
    for n in [15, 16, 17, 19, 20, 21, 95, 96, 97] {
        let good = b.fpdu(n);
        let covered = good.len() - 4;
        let mut odd = good.clone();
        odd[2 + n..covered].fill(0xa5);
        let crc = fpdu::crc32c(&odd[..covered]);
        odd[covered..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(b.counted(|b| b.pieces(4, &odd, &[])), Counts { fpdus: 1, ..ALL });
        // and is covered
        odd[covered..].copy_from_slice(&good[covered..]);
        b.anew(5, true);
        assert_eq!(b.counted(|b| b.pieces(5, &odd, &[])), Counts { crc_errors: 1, ..ALL });
    }
}

/// The floor is 14 with T and 18 without, the ceiling a slot with length field, pad and CRC. Nothing is subtracted before: 0 and 65535 are told as they are.
/// Covers: MPA-26, MPA-37
#[test]
fn lengths_below_the_header_or_above_a_slot_are_told() {
    fn run<D: Pins>() {
        let mut b = Bench::<D>::new();
        let most = D::SLOT - 6;
        let mut lengths: Vec<usize> =
            (0..=24).chain(most - 9..most + 9).chain((9..=16).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 14])).collect();
        lengths.extend([0x3fff, 0x7fff, 0xfffe, 0xfff7, 0xfff9]);
        lengths.retain(|n| *n <= 65535);
        for n in lengths {
            for tagged in [false, true] {
                let fits = n <= most && n >= if tagged { 14 } else { 18 };
                let mut body = octets(&mut b.rng, n);
                if let Some(first) = body.first_mut() {
                    *first = *first & 0x7f | if tagged { 0x80 } else { 0 };
                }
                let whole = written(&body);
                let whole = if fits { whole } else { [&whole[..whole.len().min(60)], &[0; 20]].concat() };
                // without an octet, T is the first of the pad
                let fits = fits && !body.is_empty();
                let cut = b.rng.random_range(1..whole.len());
                for cuts in [vec![], vec![1, 2, 3, 4], vec![cut]] {
                    b.anew(1, true);
                    let counts = b.counted(|b| b.pieces(1, &whole, &cuts));
                    assert_eq!(counts, Counts { fpdus: fits.into(), bad_length: (!fits).into(), ..ALL }, "{n} {tagged}");
                }
                if !fits {
                    let good = b.fpdu(20);
                    assert_eq!(b.counted(|b| b.pieces(1, &good, &[8])), ALL, "deaf");
                }
            }
        }
    }
    run::<mpa_rx_small::Model>();
    run::<mpa_rx::Model>();
}

/// FPDUs inside the payload of others, cut so that segments begin with them: only the outer ones are told, and none after one of a wrong length.
/// Covers: MPA-29
#[test]
fn what_looks_like_an_fpdu_in_a_payload_is_payload() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    b.anew(6, true);
    let inner = [b.fpdu(14), b.fpdu(20), b.fpdu(30)].concat();
    let counts = b.counted(|b| {
        for front in 0..12 {
            let mut body = octets(&mut b.rng, 14 + front);
            body[0] |= 0x80;
            let at = 2 + body.len();
            body.extend_from_slice(&inner);
            let whole = written(&body);
            b.pieces(6, &whole, &[at, at + 20, at + 48, at + inner.len()]);
        }
    });
    assert_eq!(counts, Counts { fpdus: 12, ..ALL });
    // a length that is wrong by a little hits the CRC, whatever follows
    b.anew(6, true);
    let mut whole = b.fpdu(40);
    whole[1] += 1;
    let stream = [&whole[..], &inner, &inner].concat();
    assert_eq!(b.counted(|b| b.pieces(6, &stream, &[whole.len()])), Counts { crc_errors: 1, ..ALL });
}

/// Peers that stop in the middle of an FPDU keep all slots but one: those that send whole FPDUs do not notice, those that send pieces are taken when a started one is completed.
#[test]
fn the_last_slot_is_for_fpdus_that_are_whole_in_a_segment() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    (0..8).for_each(|index| b.anew(index, true));
    let whole = b.fpdu(200);
    let short = b.fpdu(30);
    for round in 0..40 {
        let cut = b.rng.random_range(8..whole.len());
        for index in 0..3 {
            b.pieces(index, &whole[..cut], &[]);
        }
        // a piece is not taken, whether something whole is before it or not, and comes again
        assert_eq!(b.payload(3, &whole[..cut]), 0);
        assert_eq!(b.payload(3, &[&short[..], &short, &whole[..cut]].concat()), 2 * short.len());
        assert_eq!(b.payload(3, &whole[..cut]), 0);
        // up to 7 octets need no slot; they stay when the next piece is not taken
        b.pieces(4, &short[..7], &[3]);
        assert_eq!(b.payload(4, &short[7..]), short.len() - 7);
        b.pieces(4, &short[..5], &[]);
        assert_eq!(b.payload(4, &short[5..20]), 0);
        assert_eq!(b.payload(4, &[&short[5..], &whole[..cut]].concat()), short.len() - 5);
        for _ in 0..5 {
            b.pieces(5, &[&whole[..], &short, &whole, &short[..6]].concat(), &[]);
            b.pieces(5, &short[6..], &[]);
        }
        // a started one goes on in pieces of any size
        let middle = b.rng.random_range(cut..=whole.len() - 1);
        b.pieces(1, &whole[cut..middle], &[]);
        match round % 3 {
            0 => b.pieces(1, &whole[middle..], &[]),
            1 => {
                b.pieces(1, &[&whole[middle..whole.len() - 1], &[!whole[whole.len() - 1]]].concat(), &[]);
                b.anew(1, true);
            }
            _ => b.anew(1, true),
        }
        b.pieces(3, &whole[..cut], &[]);
        assert_eq!(b.payload(4, &whole[..cut]), 0);
        for index in [0, 2, 3] {
            b.pieces(index, &whole[cut..], &[]);
        }
        b.settle();
    }
    assert_eq!(b.counts.no_slot, 40 * 6);
}

/// All slots full of what was told: the payload waits, and goes on with the first that is given back; nothing is lost.
#[test]
fn an_fpdu_without_a_slot_waits_for_one_that_was_told() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    b.anew(0, true);
    b.anew(1, true);
    let four: Vec<u8> = (0..4).flat_map(|_| b.fpdu(24)).collect();
    for started in [false, true] {
        b.frees = false;
        let front = b.fpdu(40);
        if started {
            b.pieces(1, &front[..20], &[]);
        }
        b.pieces(0, if started { &four[..96] } else { &four }, &[]);
        for _ in 0..60 {
            b.clock();
        }
        assert_eq!(b.slots.len(), 4 - usize::from(started));
        // up to 7 octets do not wait
        b.pieces(0, &four[..5], &[]);
        let until = b.clocks + 500;
        for slot in b.slots.values_mut() {
            *slot = until;
        }
        b.frees = true;
        b.pieces(0, &four[5..], &[]);
        assert!(b.clocks > until);
        if started {
            b.pieces(1, &front[20..], &[]);
        }
        b.settle();
    }
    // nor does anything wait when nothing is taken of what is told but the register before it is free
    b.takes = false;
    b.pieces(0, &four[..32], &[]);
    b.takes = true;
    b.settle();
    assert_eq!(b.counts, Counts { fpdus: 17, ..ALL });
}

/// A slot is never lost: started, bad, refused, unbound, over and over.
#[test]
fn unbind_frees_the_slot_and_forgets_the_octets() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    let whole = b.fpdu(60);
    for round in 0..100_usize {
        b.busy = if round % 2 == 0 { 0.0 } else { 0.3 };
        // not bound: nothing is taken
        assert_eq!(b.payload(2, &whole), 0);
        b.bind((2, true, true));
        b.pieces(2, &whole, &[]);
        let cut = round % (whole.len() - 1) + 1;
        b.pieces(2, &whole[..cut], &[]);
        b.bind((2, false, false));
        assert_eq!(b.payload(2, &whole[cut..]), 0);
        b.bind((2, true, true));
        b.pieces(2, &whole, &[cut]);
        b.bind((2, false, true));
    }
    assert_eq!(b.counted(|_| ()), ALL);
    assert_eq!(b.counts, Counts { fpdus: 200, ..ALL });
}

/// `unbound` waits until what was told is taken; a Bind and a payload at the same time: the Bind is first.
#[test]
fn bind_and_unbind_are_in_order_with_payload_and_fpdus() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    let whole = b.fpdu(20);
    b.bind((1, true, true));
    b.takes = false;
    b.pieces(1, &whole, &[]);
    b.i.bind = Some((1, false, false));
    b.i.unbound_ready = true;
    for i in 0..50 {
        let o = b.clock();
        assert!(o.unbound.is_none() && o.fpdu.is_some());
        if o.bind_ready {
            b.i.bind = None;
        }
        assert!(i < 5 || b.i.bind.is_none());
    }
    b.takes = true;
    let mut clocks = 0;
    while b.clock().unbound.is_none() {
        clocks += 1;
    }
    assert!(clocks <= 1);
    b.model[1] = Conn::default();
    b.settle();

    b.i.bind = Some((3, true, true));
    b.model[3] = Conn { live: true, crc: true, ..Conn::default() };
    b.i.payload = Some((3, whole.len() as u16));
    let o = b.clock();
    assert!(o.bind_ready && !o.payload_ready);
    b.i.bind = None;
    b.pieces(3, &whole, &[]);
    b.settle();
}

/// The clocks that the module doc promises, with nobody in the way.
#[test]
fn a_step_takes_a_clock_and_an_fpdu_few_more() {
    let mut b = Bench::<mpa_rx::Model>::new();
    b.anew(9, true);
    let clocks = |b: &mut Bench<mpa_rx::Model>, payload: &[u8]| {
        b.settle();
        let before = b.clocks;
        b.pieces(9, payload, &[]);
        // the last one is the next one's first
        b.clocks - before - 1
    };
    // a Write of 8 octets, a Send of 46, a full segment
    for (ulpdu, want) in [(22, 4 + 9), (64, 9 + 9), (1446, 182 + 9), (1454, 183 + 9)] {
        let whole = b.fpdu(ulpdu);
        assert_eq!(clocks(&mut b, &whole), want, "{ulpdu}");
    }
    // as a stream that does not keep to segments: every beat of a payload but the first is still a clock
    let whole = b.fpdu(1454);
    assert_eq!(clocks(&mut b, &whole[..700]), 8 + 88);
    assert_eq!(clocks(&mut b, &whole[700..1403]), 8 + 88);
    assert_eq!(clocks(&mut b, &whole[1403..]), 8 + 8);
    // many in a payload
    let one = b.fpdu(22);
    assert_eq!(one.len(), 28);
    b.anew(9, true);
    let two = clocks(&mut b, &[&one[..], &one].concat());
    assert_eq!(clocks(&mut b, &[&one[..], &one, &one, &one].concat()) - two, 2 * 7);
    // what is not wanted: a beat a clock
    b.anew(9, true);
    b.pieces(9, &[0; 8], &[]);
    assert_eq!(clocks(&mut b, &[7; 1460]), 183 + 6);
}

/// One step of random traffic: a piece of a random stream of one of the connections, or a new life of it. `pending` are the octets that each peer has still to send.
fn traffic<D: Pins>(b: &mut Bench<D>, pending: &mut [Vec<u8>]) {
    let index = b.rng.random_range(0..D::CONNECTIONS);
    let i = usize::from(index);
    let ends = if b.model[i].deaf { 0.3 } else { 0.02 };
    if !b.model[i].live || b.rng.random_bool(ends) {
        if b.model[i].live {
            b.bind((index, false, false));
        }
        if b.rng.random_bool(0.2) {
            assert_eq!(b.payload(index, &[1; 20]), 0);
        }
        let crc = b.rng.random_bool(0.8);
        b.bind((index, true, crc));
        pending[i].clear();
    }
    if pending[i].is_empty() {
        for _ in 0..b.rng.random_range(1..5) {
            let n = match b.rng.random_range(0..10) {
                0 => D::SLOT - 6 - b.rng.random_range(0..4),
                1 => b.rng.random_range(14..D::SLOT - 6),
                _ => b.rng.random_range(14..60),
            };
            let mut whole = b.fpdu(n);
            if b.rng.random_bool(0.02) {
                let end = if b.rng.random() { 2 } else { whole.len() };
                let at = b.rng.random_range(0..end);
                whole[at] ^= 1 << b.rng.random_range(0..8);
            }
            pending[i].extend(whole);
        }
    }
    let most = pending[i].len().min(1460);
    let n = match b.rng.random_range(0..10) {
        0 => 1,
        1..4 => b.rng.random_range(1..=most.min(12)),
        4..7 => b.rng.random_range(1..=most),
        _ => most,
    };
    let piece = pending[i][..n].to_vec();
    let consumed = b.payload(index, &piece);
    pending[i].drain(..consumed);
}

/// All at once: several connections, right and wrong FPDUs, cut anywhere, sent again when they were not taken, a reader that is slow, indices used again.
/// Covers: MPA-21, MPA-23, MPA-28, MPA-30, MPA-31, MPA-37
#[test]
fn connections_do_not_mix() {
    fn run<D: Pins>(payloads: usize) -> Counts {
        let mut b = Bench::<D>::new();
        let mut pending = vec![vec![]; usize::from(D::CONNECTIONS)];
        for n in 0..payloads {
            if n % 256 == 0 {
                b.busy = [0.0, 0.2, 0.5][n / 256 % 3];
                b.keeps = [0, 100, 2000][n / 512 % 3];
            }
            traffic(&mut b, &mut pending);
        }
        b.settle();
        b.counts
    }
    let c = run::<mpa_rx_small::Model>(6000);
    assert!(c.fpdus > 2000 && c.crc_errors > 20 && c.bad_length > 5 && c.no_slot > 200, "{c:?}");
    let c = run::<mpa_rx::Model>(2000);
    assert!(c.fpdus > 500 && c.crc_errors > 2, "{c:?}");
}

#[test]
fn a_reset_in_the_middle_of_anything_forgets_everything() {
    let mut b = Bench::<mpa_rx_small::Model>::new();
    let mut pending = vec![vec![]; 8];
    for _ in 0..150 {
        b.busy = 0.2;
        b.keeps = 50;
        for _ in 0..b.rng.random_range(1..20) {
            traffic(&mut b, &mut pending);
        }
        // the front of another payload, or a bind
        if b.rng.random() {
            b.i.payload = Some((b.rng.random_range(0..8), 200));
        } else {
            b.i.bind = Some((b.rng.random_range(0..8), false, false));
        }
        let piece = b.fpdu(300);
        let mut beats: VecDeque<_> = beats(&piece[..200]).into();
        // what else comes is not compared, the model knows nothing of it
        b.takes = false;
        for _ in 0..b.rng.random_range(0..40) {
            b.i.beat = beats.front().copied();
            let o = b.clock();
            if o.beat_ready {
                beats.pop_front();
            }
            if o.payload_ready {
                b.i.payload = None;
            }
            if o.bind_ready {
                b.i.bind = None;
            }
        }
        b.takes = true;
        b.reset();
        b.busy = 0.0;
        b.keeps = 0;
        pending.iter_mut().for_each(Vec::clear);
        // all slots are there, nobody is bound
        let whole = b.fpdu(30);
        for index in 0..8 {
            assert_eq!(b.payload(index, &whole), 0);
            b.bind((index, true, true));
        }
        b.frees = false;
        let counts = b.counts;
        for index in 0..4 {
            b.pieces(index, &whole, &[5]);
        }
        assert_eq!(b.counts.fpdus, counts.fpdus + 4);
        b.frees = true;
        b.settle();
    }
}
