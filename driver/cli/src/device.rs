// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--device` and the settings of an attach, shared by the commands.
use clap::Args;
use ironwarp_rnic::{Bus, BusError, Config, Error, Rnic, Rule, SocketBus, TcpSettings, VfioBus};
use ironwarp_wire::MacAddr;
use std::{net::Ipv4Addr, path::PathBuf, str::FromStr, time::Duration};

/// A way to an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// vfio-user socket.
    Sim(PathBuf),
    /// PCI address.
    Vfio(String),
    /// The host's own TCP.
    Soft,
}

impl FromStr for Device {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s.split_once(':') {
            Some(("sim", path)) if !path.is_empty() => Ok(Device::Sim(path.into())),
            Some(("vfio", address)) if !address.is_empty() => {
                // lspci without -D leaves the domain out
                let full = if address.matches(':').count() == 1 { format!("0000:{address}") } else { address.to_owned() };
                let digits = |part: &str, n: usize| part.len() == n && part.bytes().all(|b| b.is_ascii_hexdigit());
                let mut parts = full.split([':', '.']);
                let good = [4, 2, 2, 1].into_iter().all(|n| parts.next().is_some_and(|p| digits(p, n))) && parts.next().is_none();
                if good {
                    Ok(Device::Vfio(full.to_ascii_lowercase()))
                } else {
                    Err(format!("{address:?} is no PCI address; write 0000:00:03.0"))
                }
            }
            None if s == "soft" => Ok(Device::Soft),
            _ => Err("write sim:PATH for a vfio-user socket, vfio:0000:00:03.0 for a PCI device, or soft for the host's own TCP".into()),
        }
    }
}

/// `--device`.
#[derive(Args, Clone, Debug)]
pub struct DeviceArgs {
    /// sim:SOCKET (vfio-user, made by `ironwarp sim`), vfio:0000:00:03.0 (bound to vfio-pci), or soft (the host's own TCP).
    #[arg(long, short, env = "IRONWARP_DEVICE")]
    pub device: Device,
    /// Bound of every message, reset and reply, in seconds.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    pub timeout: f64,
}

/// A bound.
pub fn seconds(s: &str) -> Result<f64, String> {
    let value: f64 = s.parse().map_err(|_| "not a number".to_owned())?;
    if (0.001..=86400.0).contains(&value) {
        Ok(value)
    } else {
        Err("0.001 to 86400 seconds".into())
    }
}

/// A pause: as [`seconds`], or none.
pub fn pause(s: &str) -> Result<f64, String> {
    if s.parse() == Ok(0.0) {
        Ok(0.0)
    } else {
        seconds(s)
    }
}

impl DeviceArgs {
    /// The bound.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }
    /// Opens the way; the adapter itself is not yet touched.
    pub fn open(&self) -> Result<Box<dyn Bus>, BusError> {
        Ok(match &self.device {
            Device::Sim(path) => Box::new(SocketBus::connect(path, self.timeout())?),
            Device::Vfio(address) => Box::new(VfioBus::open(address)?),
            Device::Soft => return Err(BusError::Refused("soft is no adapter: this command needs sim:SOCKET or vfio:ADDRESS".into())),
        })
    }
}

/// Settings of an attach.
#[derive(Args, Clone, Debug)]
pub struct AttachArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    /// The adapter's MAC address.
    #[arg(long, default_value = "02:1b:ad:00:00:01")]
    pub mac: MacAddr,
    /// Largest IP datagram in octets.
    #[arg(long, default_value_t = 1500)]
    pub mtu: u32,
    /// Look at the rings instead of waiting for interrupts.
    #[arg(long)]
    pub poll: bool,
    /// Settings of TCP and the MPA start-up, as two_msl_us=1000000,mpa_timeout_us=5000000.
    #[arg(long, value_parser = tcp_settings, default_value = "")]
    pub tcp: TcpSettings,
    /// A set-up rule, as "deny in 10.0.0.0/8 4791"; may be given up to 16 times, the first that matches decides.
    #[arg(long = "rule")]
    pub rules: Vec<Rule>,
}

fn tcp_settings(text: &str) -> Result<TcpSettings, String> {
    let mut settings = TcpSettings::default();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let parsed = part.split_once('=').and_then(|(name, value)| Some((name, value.parse().ok()?)));
        let (name, value) = parsed.ok_or_else(|| format!("{part:?}: write name=number, as two_msl_us=1000000"))?;
        settings.set(name, value).map_err(|e| e.to_string())?;
    }
    Ok(settings)
}

impl AttachArgs {
    /// As a driver configuration.
    pub fn config(&self) -> Config {
        Config {
            mac: self.mac,
            mtu: self.mtu,
            interrupts: !self.poll,
            tcp: self.tcp.clone(),
            command_timeout: self.device.timeout(),
            reset_timeout: self.device.timeout(),
            ..Config::default()
        }
    }
    /// Resets the adapter and starts it with `config`.
    pub fn attach(&self, config: Config) -> Result<Rnic, Error> {
        let mut rnic = Rnic::attach(self.device.open()?, config)?;
        for (number, rule) in (0..).zip(&self.rules) {
            rnic.rule_set(number, rule)?;
        }
        Ok(rnic)
    }
}

/// `192.0.2.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The adapter's address in it.
    pub address: Ipv4Addr,
    /// Length of the mask.
    pub prefix: u8,
}

impl FromStr for Network {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let parse = || {
            let (address, prefix) = s.split_once('/')?;
            let network = Network { address: address.parse().ok()?, prefix: prefix.parse().ok()? };
            (network.prefix <= 32).then_some(network)
        };
        parse().ok_or_else(|| format!("{s:?} is no address with prefix length; write 192.0.2.1/24"))
    }
}

impl Network {
    /// The mask as an address.
    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_mistakes_explained() {
        assert_eq!("sim:/run/a.sock".parse(), Ok(Device::Sim("/run/a.sock".into())));
        assert_eq!("vfio:0000:00:03.0".parse(), Ok(Device::Vfio("0000:00:03.0".into())));
        assert_eq!("soft".parse(), Ok(Device::Soft));
        assert_eq!("vfio:0A:1f.7".parse(), Ok(Device::Vfio("0000:0a:1f.7".into())));
        for bad in ["", "sim:", "vfio:", "vfio:03.0", "vfio:0000:00:03.0.1", "vfio:../../etc", "pci:0000:00:03.0", "/run/a.sock"] {
            assert!(bad.parse::<Device>().is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_of_tcp_are_read_by_name() {
        let settings = tcp_settings("two_msl_us=5,r1=2").unwrap();
        assert_eq!(settings, TcpSettings { two_msl_us: Some(5), r1: Some(2), ..TcpSettings::default() });
        for bad in ["two_msl_us", "two_msl_us=x", "r1=0", "luck=1"] {
            assert!(tcp_settings(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn networks_have_masks() {
        let network: Network = "10.1.2.3/20".parse().unwrap();
        assert_eq!((network.address, network.mask()), (Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::new(255, 255, 240, 0)));
        assert_eq!("1.2.3.4/0".parse::<Network>().unwrap().mask(), Ipv4Addr::UNSPECIFIED);
        for bad in ["10.1.2.3", "10.1.2.3/33", "10.1.2/8", "/8", "a/8"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
