//! mb, rb, head and presign: buckets, and what only objects have.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::connect::{AskArgs, Connect};
use super::{Environment, Refusal, locations};
use crate::units;
use haul_run::location::Location;
use haul_s3::flags as objects;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MbFlags {
    /// Buckets, at least one.
    pub places: Vec<Location>,
    pub connect: Connect,
}

/// Create buckets
#[derive(Args)]
#[command(
    override_usage = "haul mb [OPTIONS] s3://BUCKET...",
    before_help = "Examples:
  haul mb s3://results
  haul mb --region eu-central-1 s3://results"
)]
pub struct MbArgs {
    /// The buckets
    #[arg(value_name = "s3://BUCKET", required = true)]
    paths: Vec<OsString>,
    #[command(flatten)]
    connect: AskArgs,
}

impl MbArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<MbFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        places.iter().try_for_each(is_bucket)?;
        Ok(MbFlags { places, connect: self.connect.resolve() })
    }
}

/// Refuses what is no bucket and nothing but a bucket.
pub(super) fn is_bucket(place: &Location) -> Result<(), Refusal> {
    match place.scheme.keys && place.host.is_some() && place.path.is_empty() && !place.trailing_slash {
        true => Ok(()),
        false => Err(format!("{place} is no bucket; write s3://BUCKET")),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RbFlags {
    /// Buckets, at least one.
    pub places: Vec<Location>,
    /// `--force`: with all that is in them.
    pub force: bool,
    pub dry: bool,
    pub connect: Connect,
}

/// Remove buckets
///
/// A bucket must be empty; --force empties it first: all objects, versions and unfinished uploads.
#[derive(Args)]
#[command(
    override_usage = "haul rb [OPTIONS] s3://BUCKET...",
    before_help = "Examples:
  haul rb s3://results
  haul rb --force -n s3://results     show what would be removed"
)]
pub struct RbArgs {
    /// The buckets
    #[arg(value_name = "s3://BUCKET", required = true)]
    paths: Vec<OsString>,
    /// Empty the bucket first, permanently: objects, versions, unfinished uploads
    #[arg(long)]
    force: bool,
    /// Show what would be removed, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    connect: AskArgs,
}

impl RbArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<RbFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        places.iter().try_for_each(is_bucket)?;
        Ok(RbFlags { places, force: self.force, dry: self.dry_run, connect: self.connect.resolve() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadFlags {
    /// Objects or buckets, at least one.
    pub places: Vec<Location>,
    pub connect: Connect,
}

/// Show object metadata
///
/// Size, times, the meaning of the ETag, checksums, class, encryption, preserved file attributes, user metadata; for a bucket
/// its region. With --json one JSON object per line.
#[derive(Args)]
#[command(
    override_usage = "haul head [OPTIONS] s3://BUCKET/KEY...",
    before_help = "Examples:
  haul head s3://results/run7/out.nc
  haul head --json s3://results/run7/out.nc | jq .etag"
)]
pub struct HeadArgs {
    /// The objects
    #[arg(value_name = "s3://BUCKET/KEY", required = true)]
    paths: Vec<OsString>,
    /// Use this version of the object (default: the latest)
    #[arg(long, value_name = "ID", value_parser = objects::version)]
    version_id: Option<String>,
    #[command(flatten)]
    connect: AskArgs,
}

impl HeadArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<HeadFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        if let Some(other) = places.iter().find(|place| !place.scheme.keys || place.host.is_none()) {
            return Err(format!("{other} is no object; write s3://BUCKET/KEY, and use `haul ls -l` for files"));
        }
        let connect = versioned(self.connect.resolve(), self.version_id, &places)?;
        Ok(HeadFlags { places, connect })
    }
}

/// `--version-id` is of one object.
pub(super) fn versioned(mut connect: Connect, version: Option<String>, places: &[Location]) -> Result<Connect, Refusal> {
    if version.is_some() && !matches!(places, [place] if is_object(place) && !place.path.contains(&b'*')) {
        return Err("--version-id is a version of one object; name just one s3://BUCKET/KEY".into());
    }
    connect.change(|flags: &mut haul_s3::Flags| flags.version_id = version);
    Ok(connect)
}

/// Whether an address names an object by its key.
pub(super) fn is_object(place: &Location) -> bool {
    place.scheme.keys && place.host.is_some() && !place.path.is_empty()
}

/// What an address of `haul presign` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum PresignMethod {
    Get,
    Put,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresignFlags {
    /// Objects, at least one.
    pub places: Vec<Location>,
    /// One second to seven days.
    pub expires: Duration,
    pub method: PresignMethod,
    pub connect: Connect,
}

/// Create presigned URLs
#[derive(Args)]
#[command(
    override_usage = "haul presign [OPTIONS] s3://BUCKET/KEY...",
    before_help = "Examples:
  haul presign s3://results/out.nc                    valid for an hour
  haul presign --expires 7d s3://results/out.nc
  curl -T in.nc \"$(haul presign --method PUT s3://results/in.nc)\""
)]
pub struct PresignArgs {
    /// The objects
    #[arg(value_name = "s3://BUCKET/KEY", required = true)]
    paths: Vec<OsString>,
    /// Set how long the URL is valid, 1s to 7d
    #[arg(long, visible_alias = "expire", value_name = "DURATION", value_parser = lifetime, default_value = "1h")]
    expires: Duration,
    /// Allow reading (GET) or writing (PUT) the object
    #[arg(long, value_name = "METHOD", value_enum, ignore_case = true, default_value = "GET")]
    method: PresignMethod,
    /// Use this version of the object (default: the latest)
    #[arg(long, value_name = "ID", value_parser = objects::version)]
    version_id: Option<String>,
    #[command(flatten)]
    connect: AskArgs,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let time = units::parse_duration(text)?;
    match (Duration::from_secs(1)..=haul_s3::sign::LONGEST_PRESIGN).contains(&time) {
        true => Ok(time),
        false => Err("an address can be good for one second to seven days".into()),
    }
}

impl PresignArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<PresignFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        if let Some(other) = places.iter().find(|place| !is_object(place)) {
            return Err(format!("{other} is no object; write s3://BUCKET/KEY"));
        }
        if self.version_id.is_some() && self.method == PresignMethod::Put {
            return Err("--version-id names what is there already, and --method PUT writes anew; leave one out".into());
        }
        let connect = versioned(self.connect.resolve(), self.version_id, &places)?;
        Ok(PresignFlags { places, expires: self.expires, method: self.method, connect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_good_for_a_second_to_a_week() {
        assert_eq!(lifetime("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(lifetime("7d"), Ok(Duration::from_secs(604_800)));
        for text in ["0", "500ms", "8d", "60"] {
            assert!(lifetime(text).is_err(), "{text}");
        }
    }
}
