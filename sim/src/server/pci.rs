// SPDX-License-Identifier: MIT OR Apache-2.0
//! PCI configuration space of the adapter: type 0 header, 64-bit BAR0, MSI-X, PCI Express endpoint with function level reset, and the
//! clock capability (`ironwarp_abi::pci`).
use ironwarp_abi::{pci, BAR0_OCTETS, MSIX_PBA, MSIX_TABLE, PCI_DEVICE, PCI_VENDOR, VECTORS};

/// Octets of configuration space.
pub const OCTETS: usize = 4096;

const COMMAND: usize = 0x04;
const BAR0: usize = 0x10;
const MSIX: usize = 0x40;
const EXPRESS: usize = 0x60;
const CLOCK: usize = 0xa0;
/// Device Control, upper octet: bit 7 starts a function level reset.
const DEVICE_CONTROL_HIGH: usize = EXPRESS + 9;

/// See the module.
pub struct ConfigSpace {
    octets: Box<[u8; OCTETS]>,
    /// Bits that can be written.
    writable: Box<[u8; OCTETS]>,
}

/// What a write asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing beyond the write.
    None,
    /// Function level reset.
    Reset,
}

impl ConfigSpace {
    /// As after power-up. `clocks_per_second` goes into the clock capability.
    pub fn new(clocks_per_second: u32) -> Self {
        let mut c = ConfigSpace { octets: Box::new([0; OCTETS]), writable: Box::new([0; OCTETS]) };
        c.put(0x00, &PCI_VENDOR.to_le_bytes());
        c.put(0x02, &PCI_DEVICE.to_le_bytes());
        c.put(0x06, &[0x10]); // capability list
        c.put(0x08, &(pci::CLASS << 8 | 1).to_le_bytes()); // revision 1
        c.put(BAR0, &0x4_u32.to_le_bytes()); // 64-bit memory, not prefetchable: some reads have effects
        c.put(0x2c, &PCI_VENDOR.to_le_bytes()); // subsystem
        c.put(0x2e, &PCI_DEVICE.to_le_bytes());
        c.put(0x34, &[MSIX as u8]);
        c.put(MSIX, &[0x11, EXPRESS as u8]);
        c.put(MSIX + 2, &(VECTORS as u16 - 1).to_le_bytes());
        c.put(MSIX + 4, &MSIX_TABLE.to_le_bytes()); // BAR indicator 0 in bits 2:0
        c.put(MSIX + 8, &MSIX_PBA.to_le_bytes());
        c.put(EXPRESS, &[0x10, CLOCK as u8, 0x02, 0x00]); // version 2, endpoint
        c.put(EXPRESS + 4, &(1_u32 << 28 | 0x8000).to_le_bytes()); // function level reset, role-based errors
        c.put(EXPRESS + 0x0c, &0x411_u32.to_le_bytes()); // link: x1, 2.5 GT/s, ASPM none
        c.put(EXPRESS + 0x12, &0x11_u16.to_le_bytes());
        c.put(CLOCK, &pci::clock_capability(0, clocks_per_second));
        c.allow(COMMAND, &0x0406_u16.to_le_bytes()); // memory space, bus master, INTx disable
        c.allow(BAR0, &(!(u64::from(BAR0_OCTETS) - 1)).to_le_bytes());
        c.allow(0x3c, &[0xff]);
        c.allow(MSIX + 2, &0xc000_u16.to_le_bytes()); // enable, function mask
        c.allow(EXPRESS + 8, &[0xff, 0x7f]);
        c
    }
    fn put(&mut self, at: usize, value: &[u8]) {
        self.octets[at..at + value.len()].copy_from_slice(value);
    }
    fn allow(&mut self, at: usize, mask: &[u8]) {
        self.writable[at..at + mask.len()].copy_from_slice(mask);
    }
    /// Reads; what lies beyond the space is 0.
    pub fn read(&self, offset: usize, data: &mut [u8]) {
        for (n, octet) in data.iter_mut().enumerate() {
            *octet = offset.checked_add(n).and_then(|at| self.octets.get(at)).copied().unwrap_or(0);
        }
    }
    /// Writes the bits that can be.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Effect {
        let mut effect = Effect::None;
        for (n, octet) in data.iter().enumerate() {
            let Some(at) = offset.checked_add(n).filter(|at| *at < OCTETS) else { break };
            let mask = self.writable[at];
            self.octets[at] = self.octets[at] & !mask | octet & mask;
            if at == DEVICE_CONTROL_HIGH && octet & 0x80 != 0 {
                effect = Effect::Reset;
            }
        }
        effect
    }
    /// The driver allows DMA.
    pub fn bus_master(&self) -> bool {
        self.octets[COMMAND] & 1 << 2 != 0
    }
    /// Every bit that can be written goes to 0, as a reset does.
    pub fn reset(&mut self) {
        for (octet, mask) in self.octets.iter_mut().zip(self.writable.iter()) {
            *octet &= !mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read32(c: &ConfigSpace, offset: usize) -> u32 {
        let mut word = [0; 4];
        c.read(offset, &mut word);
        u32::from_le_bytes(word)
    }

    #[test]
    fn the_bar_is_sized_by_writing_ones_and_read_only_bits_stay() {
        let mut c = ConfigSpace::new(1);
        c.write(BAR0, &[0xff; 8]);
        assert_eq!(read32(&c, BAR0), !(BAR0_OCTETS - 1) | 4);
        assert_eq!(read32(&c, BAR0 + 4), u32::MAX);
        c.write(0, &[0xff; 4]);
        assert_eq!(read32(&c, 0), u32::from(PCI_DEVICE) << 16 | u32::from(PCI_VENDOR));
        assert_eq!(read32(&c, 8) >> 8, pci::CLASS);
        c.reset();
        assert_eq!((read32(&c, BAR0), read32(&c, BAR0 + 4)), (4, 0));
        c.write(OCTETS - 1, &[1, 2, 3]);
        c.write(usize::MAX, &[1, 2, 3]);
        assert_eq!(read32(&c, OCTETS), 0);
    }

    #[test]
    fn a_function_level_reset_is_one_bit_that_reads_0() {
        let mut c = ConfigSpace::new(1);
        assert_eq!(c.write(EXPRESS + 8, &0x7fff_u16.to_le_bytes()), Effect::None);
        assert_eq!(c.write(EXPRESS + 8, &0x8000_u16.to_le_bytes()), Effect::Reset);
        assert_eq!(c.write(EXPRESS + 9, &[0x80]), Effect::Reset);
        assert_eq!(c.write(EXPRESS, &[0xff; 12]), Effect::Reset);
        assert_eq!(read32(&c, EXPRESS + 8) & 0x8000, 0);
    }

    #[test]
    fn the_capabilities_can_be_walked_to_the_clock() {
        let c = ConfigSpace::new(250_000);
        let mut config = [0; 256];
        c.read(0, &mut config);
        assert_eq!(pci::clocks_per_second(&config), Some(250_000));
        assert_eq!(config[MSIX + 2], VECTORS as u8 - 1);
    }
}
