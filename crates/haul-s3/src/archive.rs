//! Objects in archive classes: copies that can be read for some days.

use haul_core::error::{ErrorKind, Result};
use http::Method;

use super::Bucket;
use super::xml;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It was begun: the object can be read some time later.
    Begun,
    /// It can be read already; the copy stays for the new number of days.
    Extended,
    /// A request before is under way.
    UnderWay,
}

impl Restored {
    pub fn word(self) -> &'static str {
        match self {
            Restored::Begun => "requested",
            Restored::Extended => "extended",
            Restored::UnderWay => "in-progress",
        }
    }
}

impl Bucket {
    /// Has the service make a readable copy of an archived object, for so many days; `tier` is how fast.
    pub fn restore(&self, key: &[u8], days: u32, tier: Option<&str>) -> Result<Restored> {
        let call = self.of_version(self.call("restore", Method::POST, key)).ask("restore", "");
        match self.send_document(call, &xml::restore(days, tier)) {
            Ok(answer) if answer.status == http::StatusCode::OK => Ok(Restored::Extended),
            Ok(_) => Ok(Restored::Begun),
            Err(e) if e.kind() == ErrorKind::Exists && e.reason().contains("RestoreAlreadyInProgress") => Ok(Restored::UnderWay),
            Err(e) if e.reason().contains("InvalidObjectState") => Err(e.hint("only objects in an archive class can be restored")),
            Err(e) => Err(e),
        }
    }
}

/// Whether objects of a class must be restored before they can be read.
pub fn is_archive(class: &str) -> bool {
    matches!(class, "GLACIER" | "DEEP_ARCHIVE")
}
