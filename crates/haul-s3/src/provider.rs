//! `s3://[profile@]bucket/key`.

use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use haul_core::error::Result;
use haul_core::place::url::{Fault, host_text, split_authority, split_port, split_user};
use haul_core::place::{Host, Location, Scheme, Syntax};

use super::flags::Flags;
use super::host::BucketHost;
use haul_core::place::provider::{Access, Provider, Values};

pub const S3: Scheme = Scheme(&Syntax {
    word: "s3",
    help: "s3://[profile@]bucket/key: object stores",
    short: false,
    escapes: false,
    home: false,
    keys: true,
    parse,
});

#[derive(Debug)]
pub struct S3Provider;

impl Provider for S3Provider {
    fn schemes(&self) -> &'static [Scheme] {
        &[S3]
    }

    fn declare(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn read(&self, matches: &mut ArgMatches) -> Result<Option<Arc<dyn Values>>, clap::Error> {
        // The flags of TLS are left for web servers.
        Ok(Some(Arc::new(Flags::from_arg_matches(matches)?)))
    }

    fn recall(&self, record: serde_json::Value) -> serde_json::Result<Vec<Arc<dyn Values>>> {
        let flags = serde_json::from_value::<Flags>(record)?;
        Ok(vec![Arc::new(flags.tls.clone()), Arc::new(flags)])
    }

    fn connect(&self, access: &Access, location: &Location) -> Result<Arc<dyn Host>> {
        let host = BucketHost::new(access, location)?;
        host.must_exist(access, location)?;
        Ok(Arc::new(host))
    }
}

/// The form of AWS's access key ids, of keys that stay and of keys for a session.
fn is_access_key(user: &str) -> bool {
    let known = user.starts_with("AKIA") || user.starts_with("ASIA");
    known && user.len() == 20 && user.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn parse(scheme: Scheme, rest: &[u8]) -> Result<Location, Fault> {
    let (authority, path) = split_authority(rest);
    let advice = "put the keys into the environment (AWS_ACCESS_KEY_ID ...) or into a profile, and change them if this was logged";
    let no_profile = |fault: Fault| match fault.is_hidden() {
        true => fault,
        false => Fault::new("this is no profile's name", "write s3://PROFILE@BUCKET/KEY"),
    };
    let (user, bucket) = split_user(scheme.word, authority, advice).map_err(no_profile)?;
    if user.as_deref().is_some_and(is_access_key) {
        return Err(Fault::new("a password or key in the s3 address", advice).hidden());
    }
    // `s3://` alone is the service with all its buckets.
    if bucket.is_empty() && matches!(path, b"" | b"/") {
        return Ok(Location::at(scheme, user, None, None, b""));
    }
    // Its colons are none before a port.
    if bucket.starts_with(b"arn:") {
        let why = super::address::check_bucket(&String::from_utf8_lossy(bucket)).err().unwrap_or_default();
        return Err(Fault::new(why, "write s3://BUCKET/KEY, or s3://ALIAS-s3alias/KEY for an access point"));
    }
    let (bucket, port) = split_port(bucket)?;
    let bucket = host_text(bucket)?;
    if port.is_some() {
        return Err(Fault::new("a bucket has no port", "name the server with --endpoint-url"));
    }
    Ok(Location::at(scheme, user, Some(bucket), None, path.strip_prefix(b"/").unwrap_or(path)))
}
