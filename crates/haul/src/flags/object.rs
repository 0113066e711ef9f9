//! tag, acl, restore and bucket-version: what objects and buckets have beside content and metadata.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use haul_run::location::Location;
use haul_s3::flags as objects;

use super::bucket::{is_object, versioned};
use super::connect::{AskArgs, Connect};
use super::{Environment, Refusal, locations};

/// What is done to each of the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectAction {
    ShowTags,
    SetTags(TagChange),
    ShowAcl,
    /// A canned list.
    SetAcl(String),
    Restore {
        days: u32,
        /// As the service has it.
        tier: Option<&'static str>,
    },
    ShowVersioning,
    SetVersioning(bool),
}

/// In this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagChange {
    pub clear: bool,
    pub remove: Vec<String>,
    pub set: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFlags {
    /// At least one.
    pub places: Vec<Location>,
    /// All objects below, too.
    pub recursive: bool,
    pub dry: bool,
    pub action: ObjectAction,
    pub connect: Connect,
}

/// Objects, and how many of them.
#[derive(Args)]
struct ManyArgs {
    /// Objects; patterns like s3://b/run7/*.nc
    #[arg(value_name = "s3://BUCKET/KEY", required = true)]
    paths: Vec<OsString>,
    /// Include all objects below a slash
    #[arg(short, long)]
    recursive: bool,
    /// Show what would be changed, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Use this version of the object (default: the latest)
    #[arg(long, value_name = "ID", value_parser = objects::version, conflicts_with = "recursive")]
    version_id: Option<String>,
}

impl ManyArgs {
    /// `buckets`: those are fine, too.
    fn resolve(self, action: ObjectAction, buckets: bool, connect: AskArgs, environment: &Environment<'_>) -> Result<ObjectFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        let fits = |place: &Location| is_object(place) || (place.scheme.keys && place.host.is_some() && (buckets || self.recursive));
        if let Some(other) = places.iter().find(|place| !fits(place)) {
            return Err(format!("{other} is no object; write s3://BUCKET/KEY"));
        }
        let slash = |place: &&Location| place.trailing_slash && !place.path.is_empty();
        if let Some(other) = places.iter().find(slash).filter(|_| !self.recursive) {
            return Err(format!("{other} is a directory; -r includes all objects below it"));
        }
        let connect = versioned(connect.resolve(), self.version_id, &places)?;
        Ok(ObjectFlags { places, recursive: self.recursive, dry: self.dry_run, action, connect })
    }
}

/// Show or change the tags of objects and buckets
#[derive(Args)]
#[command(
    override_usage = "haul tag [OPTIONS] s3://BUCKET[/KEY]...",
    before_help = "Examples:
  haul tag s3://b/x                             show the tags
  haul tag --set project=mars --remove old s3://b/x
  haul tag -r --clear s3://b/run7/              remove all tags of all objects below run7/"
)]
pub struct TagArgs {
    /// Set this tag; the others stay (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag)]
    set: Vec<(String, String)>,
    /// Remove this tag (repeatable)
    #[arg(long, value_name = "KEY")]
    remove: Vec<String>,
    /// Remove all tags, before --set
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    many: ManyArgs,
    #[command(flatten)]
    connect: AskArgs,
}

fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err("write KEY=VALUE".into()),
    }
}

impl TagArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<ObjectFlags, Refusal> {
        let change = TagChange { clear: self.clear, remove: self.remove, set: self.set };
        let action = if change == TagChange::default() { ObjectAction::ShowTags } else { ObjectAction::SetTags(change) };
        self.many.resolve(action, true, self.connect, environment)
    }
}

/// Show or replace the access control lists of objects and buckets
#[derive(Args)]
#[command(
    override_usage = "haul acl [OPTIONS] s3://BUCKET[/KEY]...",
    before_help = "Examples:
  haul acl s3://b/x                     show owner and grants
  haul acl --set public-read s3://b/x
  haul acl -r --clear s3://b/run7/      make all objects below run7/ private"
)]
pub struct AclArgs {
    /// Replace all grants by this canned ACL (private, public-read, bucket-owner-full-control ...)
    #[arg(long, value_name = "ACL", value_parser = canned)]
    set: Option<String>,
    /// Remove all grants but the owner's (same as --set private)
    #[arg(long, conflicts_with = "set")]
    clear: bool,
    #[command(flatten)]
    many: ManyArgs,
    #[command(flatten)]
    connect: AskArgs,
}

fn canned(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
        true => Ok(text.to_string()),
        false => Err("a canned ACL is a word such as private or public-read".into()),
    }
}

impl AclArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<ObjectFlags, Refusal> {
        let private = self.clear.then(|| "private".to_string());
        let action = self.set.or(private).map_or(ObjectAction::ShowAcl, ObjectAction::SetAcl);
        self.many.resolve(action, true, self.connect, environment)
    }
}

/// How fast archived objects are restored, and at what price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tier {
    /// Minutes
    Expedited,
    /// Hours
    Standard,
    /// Up to two days
    Bulk,
}

/// Make archived objects (GLACIER, DEEP_ARCHIVE) readable for some days
///
/// The service makes a copy, which takes minutes to days: `haul head` shows it. With -r and patterns other objects are skipped.
#[derive(Args)]
#[command(
    override_usage = "haul restore --days N [OPTIONS] s3://BUCKET/KEY...",
    before_help = "Examples:
  haul restore --days 7 s3://b/run7/out.nc
  haul restore --days 7 --tier bulk -r s3://b/run7/"
)]
pub struct RestoreArgs {
    /// Keep the readable copy for N days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36500))]
    days: u32,
    /// Restore at this speed (default: the service's)
    #[arg(long, value_name = "TIER", value_enum, ignore_case = true)]
    tier: Option<Tier>,
    #[command(flatten)]
    many: ManyArgs,
    #[command(flatten)]
    connect: AskArgs,
}

impl RestoreArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<ObjectFlags, Refusal> {
        let tier = self.tier.map(|tier| match tier {
            Tier::Expedited => "Expedited",
            Tier::Standard => "Standard",
            Tier::Bulk => "Bulk",
        });
        self.many.resolve(ObjectAction::Restore { days: self.days, tier }, false, self.connect, environment)
    }
}

/// What a bucket does with old versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Versions {
    /// Keep old versions of objects
    Enabled,
    /// Keep those there are, and make no new ones
    Suspended,
}

/// Show or change whether buckets keep old versions of objects
#[derive(Args)]
#[command(
    override_usage = "haul bucket-version [OPTIONS] s3://BUCKET...",
    before_help = "Examples:
  haul bucket-version s3://results
  haul bucket-version --set enabled s3://results"
)]
pub struct BucketVersionArgs {
    /// The buckets
    #[arg(value_name = "s3://BUCKET", required = true)]
    paths: Vec<OsString>,
    /// Set the state of versioning
    #[arg(long, value_name = "STATE", value_enum, ignore_case = true)]
    set: Option<Versions>,
    #[command(flatten)]
    connect: AskArgs,
}

impl BucketVersionArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<ObjectFlags, Refusal> {
        let places = locations(&self.paths, environment)?;
        places.iter().try_for_each(super::bucket::is_bucket)?;
        let action = self.set.map_or(ObjectAction::ShowVersioning, |set| ObjectAction::SetVersioning(set == Versions::Enabled));
        let mut connect = self.connect.resolve();
        connect.change(|flags: &mut haul_s3::Flags| flags.version_id = None);
        Ok(ObjectFlags { places, recursive: false, dry: false, action, connect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_a_key() {
        assert_eq!(tag("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(tag("a="), Ok(("a".into(), String::new())));
        for text in ["a", "=b", ""] {
            assert!(tag(text).is_err(), "{text}");
        }
        assert!(canned("public-read").is_ok() && canned("Public Read").is_err() && canned("").is_err());
    }
}
