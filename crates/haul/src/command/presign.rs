//! `haul presign`: an address, and nothing else.

use std::io::Write;
use std::time::Duration;

use haul_core::error::{Error, Result};
use haul_run::open::Argument;
use haul_run::scope::key_of;
use haul_s3::BucketHost;
use haul_s3::inventory::Purpose;

use crate::flags::bucket::PresignMethod;

pub fn presign(asked: &Argument<'_>, method: PresignMethod, expires: Duration, json: bool, out: &mut dyn Write) -> Result<()> {
    let place = BucketHost::new(asked.hosts.access(), asked.location)?;
    let purpose = match method {
        PresignMethod::Get => Purpose::Read,
        PresignMethod::Put => Purpose::Write,
    };
    let url = place.bucket().presign(purpose, &key_of(asked.location), expires).map_err(|e| e.at(&asked.path))?;
    if json {
        let method = if method == PresignMethod::Get { "GET" } else { "PUT" };
        let address = String::from_utf8_lossy(&asked.path);
        let line = serde_json::json!({ "address": address, "url": url, "method": method, "expires_seconds": expires.as_secs() });
        return writeln!(out, "{line}").map_err(|e| Error::io(e, "write"));
    }
    writeln!(out, "{url}").map_err(|e| Error::io(e, "write"))
}
