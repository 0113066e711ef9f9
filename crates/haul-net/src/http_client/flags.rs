//! The flags of all backends that speak TLS over HTTP.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use haul_core::place::Scheme;
use serde::{Deserialize, Serialize};

use haul_core::place::provider::Values;

#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[group(skip)]
pub struct TlsFlags {
    /// Accept any TLS certificate (insecure)
    #[arg(long)]
    pub no_verify_ssl: bool,
    /// Trust the CAs in FILE (PEM) instead of the system's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca_bundle: Option<PathBuf>,
}

/// Part of the flags of object stores, which record them.
impl Values for TlsFlags {
    fn record(&self, _directory: &Path) -> Option<(Scheme, serde_json::Value)> {
        None
    }
}

impl TlsFlags {
    /// Printed before the first request where certificates are not verified.
    pub const WARNING: &str = "WARNING: --no-verify-ssl: insecure: the server's certificate is not verified";
}
