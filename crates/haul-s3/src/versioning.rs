//! Whether a bucket keeps old versions of its objects.

use haul_core::error::Result;
use http::Method;

use super::Bucket;
use super::call::Body;
use super::fault;
use super::xml;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioning {
    Off,
    Enabled,
    /// It keeps those that it has and makes no new ones.
    Suspended,
}

impl Versioning {
    /// As documents have it, in lower case.
    pub fn word(self) -> &'static str {
        match self {
            Versioning::Off => "off",
            Versioning::Enabled => "enabled",
            Versioning::Suspended => "suspended",
        }
    }
}

impl Bucket {
    pub fn versioning(&self) -> Result<Versioning> {
        let call = self.call("read versioning", Method::GET, b"").ask("versioning", "");
        let answer = self.client.send(&call, Body::None)?.whole("read versioning")?;
        let status = xml::versioning(&answer).map_err(|e| fault::document("read versioning", &self.name, e))?;
        Ok(match status.as_str() {
            "Enabled" => Versioning::Enabled,
            "Suspended" => Versioning::Suspended,
            _ => Versioning::Off,
        })
    }

    /// Switches it on, or off again: what never was on stays so.
    pub fn set_versioning(&self, on: bool) -> Result<()> {
        let call = self.call("set versioning", Method::PUT, b"").ask("versioning", "");
        self.send_document(call, &xml::set_versioning(on)).map(drop)
    }
}
