// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of MPA's start-up (RFC 5044 s7.1, RFC 6581): what goes into a Request and a Reply, and what comes of both. No octet is sent
//! here.
use crate::config::SoftConfig;
use ironwarp_iwcm::{ConnParam, Depths, MpaOptions, PrivateData};
use ironwarp_verbs::Errno;
use ironwarp_wire::{
    mpa::{word, Enhanced, Frame, Kind, REVISION_ENHANCED, REVISION_PLAIN},
    Error,
};

/// The first message of a peer-to-peer initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rtr {
    Write,
    Read,
}

/// What was agreed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agreed {
    pub(crate) crc: bool,
    /// We insert markers.
    pub(crate) markers_out: bool,
    /// The peer does.
    pub(crate) markers_in: bool,
    pub(crate) depths: Depths,
    pub(crate) rtr: Option<Rtr>,
}

/// A start-up frame that owns its private data.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) markers: bool,
    pub(crate) crc: bool,
    pub(crate) reject: bool,
    pub(crate) revision: u8,
    pub(crate) enhanced: Option<Enhanced>,
    pub(crate) private_data: PrivateData,
}

impl Owned {
    /// The frame at the front, and its octets; none while it is not complete. EPROTO for what is none.
    pub(crate) fn parse(octets: &[u8], kind: Kind) -> Result<Option<(Self, usize)>, Errno> {
        match Frame::parse(octets) {
            Ok((frame, rest)) if frame.kind == kind => {
                let owned = Owned {
                    markers: frame.markers,
                    crc: frame.crc,
                    reject: frame.reject,
                    revision: frame.revision,
                    enhanced: frame.enhanced,
                    private_data: PrivateData::new(frame.private_data)?,
                };
                Ok(Some((owned, octets.len() - rest.len())))
            }
            Err(Error::Truncated) if octets.len() < 12 || octets.starts_with(&kind.key()[..octets.len().min(16)]) => Ok(None),
            _ => Err(Errno::Protocol),
        }
    }
    pub(crate) fn octets(&self, kind: Kind) -> Result<Vec<u8>, Errno> {
        let frame = Frame {
            kind,
            markers: self.markers,
            crc: self.crc,
            reject: self.reject,
            revision: self.revision,
            enhanced: self.enhanced,
            private_data: &self.private_data,
        };
        let mut octets = vec![0; frame.len()];
        frame.emit(&mut octets).map_err(|_| Errno::Invalid)?;
        Ok(octets)
    }
    /// The peer's IRD and ORD as they came; the own maximum where none came (ENH-16).
    pub(crate) fn peer(&self, config: &SoftConfig) -> (u16, u16) {
        self.enhanced.map_or((config.max_depth, config.max_depth), |words| (words.ird(), words.ord()))
    }
}

fn clamp(depth: u16, config: &SoftConfig) -> u16 {
    // "do not negotiate" is no number: then all that there is (ENH-15)
    depth.min(config.max_depth)
}

/// Our Request, and the IRD and ORD that stand behind it.
pub(crate) fn request(param: &ConnParam, mpa: MpaOptions, config: &SoftConfig) -> Result<(Owned, u16, u16), Errno> {
    let ird = clamp(param.ird, config);
    let mut ord = clamp(param.ord, config);
    if mpa.peer_to_peer && (!mpa.enhanced || !(config.rtr_read || config.rtr_write)) {
        return Err(Errno::Invalid);
    }
    if mpa.peer_to_peer && config.rtr_read {
        ord = ord.max(1);
    }
    let shown = |wish: u16, own: u16| if wish == word::NO_NEGOTIATION { wish } else { own };
    let bit = |on: bool, bit: u16| if on { bit } else { 0 };
    let enhanced = mpa.enhanced.then(|| Enhanced {
        ird_word: shown(param.ird, ird) | bit(mpa.peer_to_peer, word::PEER_TO_PEER),
        ord_word: shown(param.ord, ord)
            | bit(mpa.peer_to_peer && config.rtr_write, word::RTR_WRITE)
            | bit(mpa.peer_to_peer && config.rtr_read, word::RTR_READ),
    });
    let frame = Owned {
        markers: mpa.markers,
        crc: mpa.crc,
        reject: false,
        revision: if mpa.enhanced { REVISION_ENHANCED } else { REVISION_PLAIN },
        enhanced,
        private_data: param.private_data.clone(),
    };
    frame.octets(Kind::Request)?;
    Ok((frame, ird, ord))
}

/// Why an initiator gives up, and the code of MPA's Terminate that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Errno,
    pub(crate) code: Option<u8>,
}

/// What comes of our Request and the Reply to it.
pub(crate) fn judge(request: &Owned, own: (u16, u16), reply: &Owned, config: &SoftConfig) -> Result<Agreed, Refusal> {
    let (peer_ird, peer_ord) = reply.peer(config);
    let (mut ird, mut ord) = own;
    let refuse = |status, code| Err(Refusal { status, code });
    // ENH-1, ENH-19
    if request.enhanced.is_some() != reply.enhanced.is_some() || request.revision != reply.revision {
        return refuse(Errno::Protocol, None);
    }
    let mut rtr = None;
    if let (Some(asked), Some(words)) = (request.enhanced, reply.enhanced) {
        if asked.ird_word & word::PEER_TO_PEER != 0 {
            let offered = asked.ord_word & words.ord_word;
            rtr = if words.ird_word & word::PEER_TO_PEER == 0 {
                None
            } else if offered & word::RTR_WRITE != 0 {
                Some(Rtr::Write)
            } else if offered & word::RTR_READ != 0 {
                Some(Rtr::Read)
            } else {
                None
            };
            if rtr.is_none() {
                return refuse(Errno::Protocol, Some(7));
            }
        }
        if peer_ord != word::NO_NEGOTIATION && peer_ord > ird {
            if peer_ord > config.max_depth {
                return refuse(Errno::NoMemory, Some(6));
            }
            ird = peer_ord;
        }
        if peer_ird != word::NO_NEGOTIATION {
            ord = ord.min(peer_ird);
        }
        if rtr == Some(Rtr::Read) && ord == 0 {
            return refuse(Errno::Protocol, Some(7));
        }
    }
    Ok(Agreed {
        crc: request.crc || reply.crc,
        markers_out: reply.markers,
        markers_in: request.markers,
        depths: Depths { own_ird: ird, own_ord: ord, peer_ird, peer_ord },
        rtr,
    })
}

/// Our Reply to a Request, and what comes of both. ENOMEM: the peer wants more Reads at a time than there can be (CM-28).
pub(crate) fn answer(request: &Owned, param: &ConnParam, config: &SoftConfig) -> Result<(Owned, Agreed), Errno> {
    let (peer_ird, peer_ord) = request.peer(config);
    let mut ird = clamp(param.ird, config);
    let mut ord = clamp(param.ord, config);
    let mut rtr = None;
    let mut words = None;
    if let Some(asked) = request.enhanced {
        let mut bits = 0;
        if asked.ird_word & word::PEER_TO_PEER != 0 {
            let write = asked.ord_word & word::RTR_WRITE != 0 && config.rtr_write;
            let read = asked.ord_word & word::RTR_READ != 0 && config.rtr_read;
            // what was offered, else anything that there is (ENH-4, CH-5)
            rtr = Some(if write || !read && config.rtr_write { Rtr::Write } else { Rtr::Read });
            bits = if rtr == Some(Rtr::Write) { word::RTR_WRITE } else { word::RTR_READ };
            if rtr == Some(Rtr::Read) {
                ird = ird.max(1);
            }
        }
        if peer_ord != word::NO_NEGOTIATION {
            if peer_ord > config.max_depth {
                return Err(Errno::NoMemory);
            }
            ird = ird.max(peer_ord);
        }
        if peer_ird != word::NO_NEGOTIATION {
            ord = ord.min(peer_ird);
        }
        words = Some(Enhanced {
            ird_word: if peer_ord == word::NO_NEGOTIATION { word::NO_NEGOTIATION } else { ird } | asked.ird_word & word::PEER_TO_PEER,
            ord_word: if peer_ird == word::NO_NEGOTIATION { word::NO_NEGOTIATION } else { ord } | bits,
        });
    }
    let reply = Owned {
        markers: config.mpa.markers,
        crc: config.mpa.crc || request.crc,
        reject: false,
        revision: request.revision,
        enhanced: words,
        private_data: param.private_data.clone(),
    };
    let agreed = Agreed {
        crc: reply.crc,
        markers_out: request.markers,
        markers_in: reply.markers,
        depths: Depths { own_ird: ird, own_ord: ord, peer_ird, peer_ord },
        rtr,
    };
    Ok((reply, agreed))
}

/// Our Reply that refuses (CH-24: but for R as an acceptance).
pub(crate) fn refusal(request: &Owned, private_data: &PrivateData, config: &SoftConfig) -> Owned {
    let words = request.enhanced.map(|asked| Enhanced {
        ird_word: config.max_depth | asked.ird_word & word::PEER_TO_PEER,
        ord_word: if asked.ird_word & word::PEER_TO_PEER != 0 { word::RTR_WRITE } else { 0 },
    });
    Owned {
        markers: config.mpa.markers,
        crc: config.mpa.crc || request.crc,
        reject: true,
        revision: request.revision,
        enhanced: words,
        private_data: private_data.clone(),
    }
}
