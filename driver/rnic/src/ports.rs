// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports that the host keeps for its own stack, as the driver told the adapter.

/// One bit a port.
pub(crate) struct Ports(Box<[u64; 1024]>);

impl Default for Ports {
    fn default() -> Self {
        Ports(Box::new([0; 1024]))
    }
}

impl Ports {
    pub(crate) fn set(&mut self, first: u16, last: u16, on: bool) {
        for port in first..=last {
            let (word, bit) = (usize::from(port / 64), 1 << (port % 64));
            if on {
                self.0[word] |= bit;
            } else {
                self.0[word] &= !bit;
            }
        }
    }
    /// As first and last port of each range, ascending.
    pub(crate) fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for port in (0..=u16::MAX).filter(|p| self.0[usize::from(p / 64)] >> (p % 64) & 1 == 1) {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(port) => *last = port,
                _ => ranges.push((port, port)),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_part() {
        let mut ports = Ports::default();
        assert_eq!(ports.ranges(), []);
        ports.set(80, 90, true);
        ports.set(91, 130, true);
        ports.set(65535, 65535, true);
        assert_eq!(ports.ranges(), [(80, 130), (65535, 65535)]);
        ports.set(100, 100, false);
        assert_eq!(ports.ranges(), [(80, 99), (101, 130), (65535, 65535)]);
        ports.set(0, 65535, true);
        assert_eq!(ports.ranges(), [(0, 65535)]);
    }
}
