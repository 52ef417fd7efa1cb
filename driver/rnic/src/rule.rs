// SPDX-License-Identifier: MIT OR Apache-2.0
//! Set-up rules: who may connect to us, and to whom we may connect.
use crate::error::Error;
use ironwarp_abi::{command::flag, Command, Opcode, RULES};
use std::{fmt, net::Ipv4Addr, ops::RangeInclusive, str::FromStr};

/// One of the adapter's rules. Of those that match a set-up the one with the lowest number decides; what none matches is allowed.
///
/// As text: `deny in 10.0.0.0/8 4791`, `allow both 192.0.2.7`, `deny out 0.0.0.0/0 1-1023`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// What matches is denied: a SYN is answered as if nobody listened, CONNECT by [`Refusal::Denied`](crate::Refusal::Denied).
    pub deny: bool,
    /// It is for SYNs to our listeners.
    pub inbound: bool,
    /// It is for `connect`.
    pub outbound: bool,
    /// The peers.
    pub network: Ipv4Addr,
    /// Length of the network's mask, 0..=32.
    pub prefix: u8,
    /// The port that is connected to: ours for a SYN that comes, the peer's for `connect`.
    pub ports: RangeInclusive<u16>,
}

impl Rule {
    /// As the command that sets it.
    ///
    /// # Errors
    /// [`Error::Config`]: the number, the prefix, the ports or an address beyond the prefix.
    pub(crate) fn command(&self, number: u16) -> Result<Command, Error> {
        let bad = |what: String| Err(Error::Config(format!("rule {number} ({self}): {what}")));
        if self.prefix > 32 {
            return bad(format!("prefix length {} is more than 32", self.prefix));
        }
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
        let network = u32::from(self.network);
        if network & !mask != 0 {
            return bad(format!("the address has bits beyond the prefix; write {}/{}", Ipv4Addr::from(network & mask), self.prefix));
        }
        if self.ports.is_empty() {
            return bad("no port lies in the range; give first <= last".into());
        }
        if !self.inbound && !self.outbound {
            return bad("it is for nothing; say in, out or both".into());
        }
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        Ok(Command {
            flags: bit(self.deny, flag::DENY) | bit(self.inbound, flag::INBOUND) | bit(self.outbound, flag::OUTBOUND),
            local_addr: network,
            remote_addr: mask,
            local_port: *self.ports.start(),
            remote_port: *self.ports.end(),
            ..Self::removal(number)?
        })
    }
    /// As the command that takes rule `number` out.
    pub(crate) fn removal(number: u16) -> Result<Command, Error> {
        if number >= RULES {
            return Err(Error::Config(format!("there is no rule {number}; they are 0..={}", RULES - 1)));
        }
        Ok(Command { backlog_half_open: number, ..crate::rnic::command(Opcode::Rule) })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = if self.deny { "deny" } else { "allow" };
        let direction = match (self.inbound, self.outbound) {
            (true, true) => "both",
            (false, true) => "out",
            _ => "in",
        };
        write!(f, "{action} {direction} {}/{} {}-{}", self.network, self.prefix, self.ports.start(), self.ports.end())
    }
}

impl FromStr for Rule {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let parse = || {
            let mut words = s.split_whitespace();
            let deny = match words.next()? {
                "deny" => true,
                "allow" => false,
                _ => return None,
            };
            let (inbound, outbound) = match words.next()? {
                "in" => (true, false),
                "out" => (false, true),
                "both" => (true, true),
                _ => return None,
            };
            let (network, prefix) = match words.next() {
                None | Some("any") => (Ipv4Addr::UNSPECIFIED, 0),
                Some(text) => match text.split_once('/') {
                    Some((network, prefix)) => (network.parse().ok()?, prefix.parse().ok()?),
                    None => (text.parse().ok()?, 32),
                },
            };
            let ports = match words.next() {
                None => 0..=u16::MAX,
                Some(text) => match text.split_once('-') {
                    Some((first, last)) => first.parse().ok()?..=last.parse().ok()?,
                    None => {
                        let port = text.parse().ok()?;
                        port..=port
                    }
                },
            };
            words.next().is_none().then_some(Rule { deny, inbound, outbound, network, prefix, ports })
        };
        parse().ok_or_else(|| {
            format!("{s:?} is no rule; write allow|deny in|out|both [NETWORK[/PREFIX] [PORT[-LAST]]], as \"deny in 10.0.0.0/8 4791\"")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written() {
        for (text, canonical) in [
            ("deny in 10.0.0.0/8 4791", "deny in 10.0.0.0/8 4791-4791"),
            ("allow both 192.0.2.7", "allow both 192.0.2.7/32 0-65535"),
            ("deny out any 1-1023", "deny out 0.0.0.0/0 1-1023"),
            (" deny  in ", "deny in 0.0.0.0/0 0-65535"),
        ] {
            let rule: Rule = text.parse().expect(text);
            assert_eq!(rule.to_string(), canonical);
            assert_eq!(canonical.parse::<Rule>().as_ref(), Ok(&rule));
            assert!(rule.command(RULES - 1).is_ok(), "{text}");
            assert!(matches!(rule.command(RULES), Err(Error::Config(_))));
        }
        for bad in
            ["", "deny", "deny from 1.2.3.4", "drop in", "deny in 1.2.3/8", "deny in 1.2.3.4/x", "deny in any 70000", "deny in any 1 2"]
        {
            assert!(bad.parse::<Rule>().is_err(), "{bad}");
        }
        for bad in ["deny in 10.1.0.0/8", "deny in 1.2.3.4/33", "deny in any 2-1"] {
            assert!(matches!(bad.parse::<Rule>().expect(bad).command(0), Err(Error::Config(_))), "{bad}");
        }
    }
}
