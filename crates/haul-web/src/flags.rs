//! The flags that only web servers have.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, ValueHint};
use haul_core::place::Scheme;
use serde::{Deserialize, Serialize};

use haul_core::place::provider::{Values, root_all};
use haul_net::http_client::TlsFlags;

/// What the flags say of web servers.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[group(skip)]
#[command(next_help_heading = "Web servers (http:// and https:// addresses; no effect on others)")]
pub struct Flags {
    /// Verify the one file against this SHA-256 while it arrives: 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = hex)]
    pub sha256: Option<[u8; 32]>,
    /// Verify files against this list, a file or URL as sha256sum writes it; a file that is not in it fails
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "sha256")]
    pub sha256sums: Option<OsString>,
    #[arg(skip)]
    pub tls: TlsFlags,
}

impl Values for Flags {
    fn record(&self, directory: &Path) -> Option<(Scheme, serde_json::Value)> {
        let mut flags = self.clone();
        // A URL stays as it is.
        let file = flags.sha256sums.iter_mut().filter(|list| !list.to_string_lossy().contains("://"));
        file.for_each(|list| *list = directory.join(&*list).into_os_string());
        root_all(&mut flags.tls.ca_bundle, directory);
        Some((super::provider::HTTPS, serde_json::to_value(flags).unwrap_or_default()))
    }
}

/// 32 bytes of hexadecimal digits.
pub(super) fn hex(text: &str) -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    let wrong = || "a SHA-256 has 64 hexadecimal digits, as sha256sum prints them".to_string();
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(wrong)?;
    }
    Ok(bytes)
}
