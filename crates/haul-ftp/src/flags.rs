//! The flags that only FTP servers have.

use std::path::Path;

use clap::{Args, ValueEnum};
use haul_core::place::Scheme;
use serde::{Deserialize, Serialize};

use haul_core::place::provider::{Values, root_all};
use haul_net::http_client::TlsFlags;

/// How TLS begins on the control connection: values of `--ftp-tls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    Explicit,
    Implicit,
}

/// What the flags say of FTP servers.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[group(skip)]
#[command(next_help_heading = "FTP servers (ftp://, ftps://, gsiftp:// and sshftp:// addresses; no effect on others)")]
pub struct Flags {
    /// Encrypt with AUTH TLS, or from the first byte (default: ftps:// explicit, implicit at port 990; ftp:// none)
    #[arg(long, value_name = "HOW", value_enum, hide_possible_values = false)]
    pub ftp_tls: Option<Security>,
    /// Let the server connect to this host for data (PORT), where passive connections fail
    #[arg(long)]
    pub ftp_active: bool,
    /// GridFTP: do not authenticate data connections (DCAU N; insecure)
    #[arg(long, alias = "nodcau", conflicts_with = "dcpriv")]
    pub no_dcau: bool,
    /// GridFTP: encrypt data connections (PROT P; default: authenticated, not encrypted)
    #[arg(long, alias = "dcsafe")]
    pub dcpriv: bool,
    /// TCP buffers of data connections, here and on GridFTP servers (SBUF), as 4M (default: auto-tuned by the systems)
    #[arg(long, value_name = "BYTES", value_parser = buffer)]
    pub tcp_bs: Option<u32>,
    #[arg(skip)]
    pub tls: TlsFlags,
}

/// Bytes, with an optional K, M or G of 1024: at most 1 GiB.
fn buffer(text: &str) -> Result<u32, String> {
    let (digits, factor) = match text.trim_end_matches(['K', 'k', 'M', 'm', 'G', 'g']) {
        digits if digits.len() == text.len() => (digits, 1),
        digits => match text[digits.len()..].to_ascii_lowercase().as_str() {
            "k" => (digits, 1 << 10),
            "m" => (digits, 1 << 20),
            "g" => (digits, 1 << 30),
            _ => return Err("write bytes, as 4194304 or 4M".into()),
        },
    };
    let bytes = digits.parse::<u32>().ok().and_then(|count| count.checked_mul(factor)).filter(|bytes| (4096..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| "write 4K to 1G, as 4194304 or 4M".into())
}

impl Flags {
    /// How to talk to an address. ftps:// is never clear text.
    pub fn security(&self, secure: bool, port: Option<u16>) -> Option<Security> {
        let usual = if port == Some(990) { Security::Implicit } else { Security::Explicit };
        self.ftp_tls.or(secure.then_some(usual))
    }
}

impl Values for Flags {
    fn record(&self, directory: &Path) -> Option<(Scheme, serde_json::Value)> {
        let mut flags = self.clone();
        root_all(&mut flags.tls.ca_bundle, directory);
        Some((super::provider::FTP, serde_json::to_value(flags).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_units() {
        for (text, bytes) in [("4096", 4096), ("64K", 65536), ("4M", 4 << 20), ("4m", 4 << 20), ("1G", 1 << 30)] {
            assert_eq!(buffer(text), Ok(bytes));
        }
        for bad in ["", "M", "0", "4095", "2G", "4KK", "-4M", "4 M", "9999999999999"] {
            assert!(buffer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ftps_is_never_clear_text() {
        let flags = |ftp_tls| Flags { ftp_tls, ..Flags::default() };
        for (ftp_tls, secure, port, expected) in [
            (None, false, None, None),
            (None, false, Some(990), None),
            (None, true, None, Some(Security::Explicit)),
            (None, true, Some(990), Some(Security::Implicit)),
            (None, true, Some(2121), Some(Security::Explicit)),
            (Some(Security::Implicit), true, Some(2121), Some(Security::Implicit)),
            (Some(Security::Explicit), true, Some(990), Some(Security::Explicit)),
            (Some(Security::Explicit), false, None, Some(Security::Explicit)),
        ] {
            assert_eq!(flags(ftp_tls).security(secure, port), expected, "{ftp_tls:?} {secure} {port:?}");
        }
    }
}
