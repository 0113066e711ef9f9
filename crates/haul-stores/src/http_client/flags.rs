//! The flags of all backends that speak TLS over HTTP.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::{Deserialize, Serialize};

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

impl TlsFlags {
    /// Printed before the first request where certificates are not verified.
    pub const WARNING: &str = "WARNING: --no-verify-ssl: insecure: the server's certificate is not verified";
}
