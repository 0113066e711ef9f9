//! bench net.

use clap::Args;

use crate::flags::{Environment, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetFlags {}

/// What the way to a host bears, by streams and direction, without any disk
#[derive(Args)]
#[command(override_usage = "haul bench net [OPTIONS] HOST")]
pub struct NetArgs {}

impl NetArgs {
    pub(super) fn resolve(self, _: &Environment<'_>) -> Result<NetFlags, Refusal> {
        Ok(NetFlags {})
    }
}
