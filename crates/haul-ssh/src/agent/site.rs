//! What the administrator of a machine allows of data connections: `/etc/haul/config.toml`, and for what it leaves open the
//! variables `HAUL_DATA_...`. It binds haul on both ends, whatever the flags of a run say.

use std::path::Path;

use haul_core::error::{Error, ErrorKind, Result};
use serde::Deserialize;

use super::direct::{self, Ports};
use super::tls::Suites;

pub const FILE: &str = "/etc/haul/config.toml";

/// How the reason begins why a machine has no data connections at all.
pub const NO_DATA: &str = "no data connections: ";

#[derive(Clone, Debug, Default)]
pub struct Site {
    /// Why no data connections are made.
    pub off: Option<String>,
    /// The only ports that may be listened on.
    ports: Ports,
    pub suites: Suites,
    pub streams: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    data_connections: Settings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    enabled: Option<bool>,
    ports: Option<String>,
    ciphers: Option<Vec<String>>,
    streams: Option<usize>,
}

impl Site {
    /// The settings of this machine. Where they cannot be read there are no data connections, with the reason.
    pub fn read() -> Site {
        Site::of(Path::new(FILE), &|name| std::env::var(name).ok())
    }

    fn of(file: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Site {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Site::broken(&format!("{}: {e}", file.display())),
        };
        let settings = toml::from_str::<File>(&text).map_err(|e| format!("{}: {}", file.display(), e.message()));
        let settings = settings.and_then(|file| file.data_connections.or_by(variable));
        settings.and_then(Site::new).unwrap_or_else(|e| Site::broken(&e))
    }

    fn broken(reason: &str) -> Site {
        Site { off: Some(format!("unusable settings on {}: {reason}", own_name())), ..Site::default() }
    }

    fn new(settings: Settings) -> std::result::Result<Site, String> {
        let off = (settings.enabled == Some(false)).then(|| format!("they are switched off on {} by its administrator", own_name()));
        let ports = settings.ports.map(|text| ports(&text).map_err(|e| format!("ports {text:?}: {e}"))).transpose()?;
        let suites = settings.ciphers.map_or_else(|| Ok(Suites::default()), |names| Suites::named(&names))?;
        if settings.streams == Some(0) {
            return Err("streams = 0: use enabled = false".into());
        }
        Ok(Site { off, ports, suites, streams: settings.streams })
    }

    pub fn check(&self) -> Result<()> {
        match &self.off {
            None => Ok(()),
            Some(reason) => Err(Error::new(ErrorKind::Unsupported, direct::LISTEN).because(format!("{NO_DATA}{reason}"))),
        }
    }

    /// The ports to listen on where a run asks for these.
    pub fn ports(&self, asked: Ports) -> Result<Ports> {
        let (Some((low, high)), Some((first, last))) = (self.ports, asked) else { return Ok(self.ports.or(asked)) };
        let both = (low.max(first), high.min(last));
        if both.0 <= both.1 {
            return Ok(Some(both));
        }
        let e = Error::new(ErrorKind::Unsupported, direct::LISTEN);
        Err(e.because(format!("ports {first}:{last} are not among those that the site allows, {low}:{high}")))
    }

    /// So many connections, as far as they are allowed beside those that there are.
    pub fn bound(&self, wanted: usize, present: usize) -> usize {
        self.streams.map_or(wanted, |most| wanted.min(most.saturating_sub(present)))
    }
}

impl Settings {
    /// Variables stand for what the file leaves open.
    fn or_by(self, variable: &dyn Fn(&str) -> Option<String>) -> std::result::Result<Settings, String> {
        let enabled = match variable("HAUL_DATA_CONNECTIONS").as_deref() {
            None | Some("") => None,
            Some("on" | "true" | "1" | "yes") => Some(true),
            Some("off" | "false" | "0" | "no") => Some(false),
            Some(other) => return Err(format!("HAUL_DATA_CONNECTIONS={other:?}: write on or off")),
        };
        let streams = match variable("HAUL_DATA_STREAMS").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| format!("HAUL_DATA_STREAMS={text:?}: write a number"))?),
        };
        let list = |text: String| text.split(',').map(|name| name.trim().to_string()).collect();
        Ok(Settings {
            enabled: self.enabled.or(enabled),
            ports: self.ports.or_else(|| variable("HAUL_DATA_PORTS").filter(|text| !text.is_empty())),
            ciphers: self.ciphers.or_else(|| variable("HAUL_DATA_CIPHERS").filter(|text| !text.is_empty()).map(list)),
            streams: self.streams.or(streams),
        })
    }
}

/// Of this machine, for messages that are read on the other one, too.
fn own_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// `50000:51000`, or one port.
pub fn ports(text: &str) -> std::result::Result<(u16, u16), String> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (low, high) = text.split_once(':').unwrap_or((text, text));
    match (port(low), port(high)) {
        (Some(low), Some(high)) if low <= high => Ok((low, high)),
        _ => Err("write LOW:HIGH, two numbers from 1 to 65535".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(text: &str, variables: &[(&str, &str)]) -> Site {
        let place = tempfile::tempdir().expect("a temporary directory");
        let file = place.path().join("config.toml");
        if !text.is_empty() {
            std::fs::write(&file, text).expect("written");
        }
        Site::of(&file, &|name| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn the_file_wins_and_variables_stand_for_the_rest() {
        let open = site("", &[]);
        assert!(open.check().is_ok() && open.bound(64, 3) == 64 && open.suites == Suites::default());
        assert_eq!(open.ports(Some((5, 9))).expect("allowed"), Some((5, 9)));
        let text = "[data-connections]\nports = \"41000:41010\"\nciphers = [\"TLS_AES_256_GCM_SHA384\"]\nstreams = 6\n";
        let own = [("HAUL_DATA_STREAMS", "60"), ("HAUL_DATA_PORTS", "1:65535"), ("HAUL_DATA_CIPHERS", "TLS_AES_128_GCM_SHA256")];
        let bound = site(text, &own);
        assert_eq!(bound.suites.names(), ["TLS_AES_256_GCM_SHA384"]);
        assert_eq!((bound.bound(64, 0), bound.bound(64, 4), bound.bound(1, 0), bound.bound(4, 9)), (6, 2, 1, 0));
        assert_eq!(bound.ports(None).expect("allowed"), Some((41000, 41010)));
        assert_eq!(bound.ports(Some((41005, 50000))).expect("allowed"), Some((41005, 41010)));
        assert!(bound.ports(Some((50000, 50001))).is_err());
        assert!(site("[data-connections]\nenabled = false", &[("HAUL_DATA_CONNECTIONS", "on")]).check().is_err());
        let by_variables =
            site("", &[("HAUL_DATA_CIPHERS", "TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256"), ("HAUL_DATA_STREAMS", "3")]);
        assert_eq!((by_variables.suites.names().len(), by_variables.streams), (2, Some(3)));
        assert!(site("", &[("HAUL_DATA_CONNECTIONS", "off")]).check().is_err());
    }

    #[test]
    fn settings_that_are_not_understood_switch_them_off() {
        let wrong =
            ["[data-connection]\nenabled = true", "[data-connections]\nport = \"1:2\"", "ports", "[data-connections]\nports = \"9:1\""];
        for text in wrong.into_iter().chain([
            "[data-connections]\nciphers = []",
            "[data-connections]\nciphers = [\"RC4\"]",
            "[data-connections]\nstreams = 0",
        ]) {
            let e = site(text, &[]).check().expect_err(text);
            assert!(e.reason().contains("unusable settings"), "{text}: {e}");
        }
        for (name, value) in
            [("HAUL_DATA_CONNECTIONS", "perhaps"), ("HAUL_DATA_PORTS", "x"), ("HAUL_DATA_STREAMS", "-1"), ("HAUL_DATA_CIPHERS", ",")]
        {
            assert!(site("", &[(name, value)]).check().is_err(), "{name}={value}");
        }
    }
}
