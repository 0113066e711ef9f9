//! What of a tree is copied: links, special files, attributes.
//!
//! Each option switches something on or off, and they are applied in the order in which they were written: `-a
//! --no-owner` keeps all but the owner, and `--no-owner -a` keeps the owner too.

use clap::{ArgMatches, Args};
use haul_core::entry::MetaMask;
use haul_core::job::ModeChange;
use haul_core::spec::{Attributes, Owner, Principal};

use super::{Environment, Refusal, in_order};
use crate::units;

#[derive(Args)]
#[command(next_help_heading = "Attributes")]
pub struct KeepArgs {
    /// Preserve everything: -rlptgoD plus ACLs, user xattrs, hard links and holes (-A -X -H -S)
    #[arg(short, long)]
    archive: bool,
    /// Preserve permissions with setuid and setgid bits (default: permissions without them)
    #[arg(short, long)]
    perms: bool,
    /// Preserve modification times to the nanosecond (default)
    #[arg(short, long)]
    times: bool,
    /// Preserve owners, as far as this user may set them
    #[arg(short, long)]
    owner: bool,
    /// Preserve groups, as far as this user may set them
    #[arg(short, long)]
    group: bool,
    /// Copy FIFOs, sockets and devices
    #[arg(short = 'D', long, visible_alias = "devices")]
    specials: bool,
    /// Preserve hard links between copied files
    #[arg(short = 'H', long)]
    hard_links: bool,
    /// Preserve ACLs, and clear inherited default ACLs
    #[arg(short = 'A', long)]
    acls: bool,
    /// Preserve extended attributes: user.*; as root also security.capability and trusted.*
    #[arg(short = 'X', long)]
    xattrs: bool,
    /// Preserve sparse files
    #[arg(short = 'S', long)]
    sparse: bool,
    /// Preserve these too, separated by commas: mode,times,owner,group,acl,xattr,links,sparse,specials,context,all (alone: mode,times,owner,group,acl,xattr)
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true, default_missing_value = "mode,times,owner,group,acl,xattr",
        value_parser = parse_preserve)]
    preserve: Option<Preserve>,
    /// Copy symlinks as symlinks (default; --no-links skips them)
    #[arg(short, long)]
    links: bool,
    /// Copy the targets of symlinks
    #[arg(short = 'L', long, visible_alias = "dereference")]
    copy_links: bool,
    /// Skip symlinks that point outside the tree
    #[arg(long)]
    safe_links: bool,
    /// Follow symlinks to directories at the destination, as long as they stay below DST
    #[arg(short = 'K', long)]
    keep_dirlinks: bool,
    /// Do not preserve permissions
    #[arg(long, visible_aliases = ["no-p", "no-mode"])]
    no_perms: bool,
    /// Do not preserve modification times (the next run compares everything again)
    #[arg(long, visible_alias = "no-t")]
    no_times: bool,
    /// Do not preserve owners
    #[arg(long, visible_alias = "no-o")]
    no_owner: bool,
    /// Do not preserve groups
    #[arg(long, visible_alias = "no-g")]
    no_group: bool,
    /// Do not copy FIFOs, sockets and devices
    #[arg(long, visible_aliases = ["no-D", "no-devices"])]
    no_specials: bool,
    /// Do not preserve hard links
    #[arg(long, visible_alias = "no-H")]
    no_hard_links: bool,
    /// Do not preserve ACLs
    #[arg(long, visible_alias = "no-A")]
    no_acls: bool,
    /// Do not preserve extended attributes
    #[arg(long, visible_alias = "no-X")]
    no_xattrs: bool,
    /// Do not preserve sparse files
    #[arg(long, visible_alias = "no-S")]
    no_sparse: bool,
    /// Skip symlinks
    #[arg(long, visible_alias = "no-l")]
    no_links: bool,
    /// Change permissions, as in rsync: D755,F644 or u+w,go=rX
    #[arg(long, value_name = "MODES")]
    chmod: Vec<String>,
    /// Set owner and group: USER, USER:GROUP or :GROUP, as names or numbers
    #[arg(long, value_name = "USER:GROUP", value_parser = parse_chown)]
    chown: Option<Owner>,
    /// Preserve owners and groups by number, not by name (default within one machine)
    #[arg(long)]
    numeric_ids: bool,
}

/// A checked `--preserve` list.
#[derive(Clone, Debug)]
struct Preserve(Vec<What>);

fn parse_preserve(text: &str) -> Result<Preserve, String> {
    let word = |word: &str| {
        Ok(match word {
            "mode" | "perms" => What::Mode,
            "times" | "timestamps" => What::Times,
            "owner" => What::Owner,
            "group" => What::Group,
            "ownership" => What::Ownership,
            "acl" | "acls" => What::Acl,
            "xattr" | "xattrs" => What::Xattr,
            "links" | "hard-links" => What::HardLinks,
            "sparse" => What::Sparse,
            "specials" => What::Specials,
            "context" => What::Context,
            "all" => What::All,
            other => {
                return Err(format!(
                    "'{other}' cannot be kept; there are mode, times, owner, group, acl, xattr, links, sparse, specials, context, all"
                ));
            }
        })
    };
    text.split(',').map(word).collect::<Result<_, _>>().map(Preserve)
}

pub(super) fn parse_chown(text: &str) -> Result<Owner, String> {
    const FORMS: &str = "write USER, USER:GROUP or :GROUP";
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    match (principal(user, FORMS)?, principal(group, FORMS)?) {
        (None, None) => Err(FORMS.into()),
        (user, group) => Ok(Owner { user, group }),
    }
}

pub(super) fn parse_group(text: &str) -> Result<Principal, String> {
    principal(text, "write the name or the number of a group")?.ok_or_else(|| "no group is named".into())
}

fn principal(name: &str, forms: &str) -> Result<Option<Principal>, String> {
    match name {
        "" => Ok(None),
        // chown(2) reads the largest number as "leave it".
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => match digits.parse::<u32>() {
            Ok(id) if id < u32::MAX => Ok(Some(Principal::Id(id))),
            _ => Err(format!("{digits} is no user's or group's number")),
        },
        name if name.contains([':', '/', '\n']) => Err(forms.to_string()),
        name => Ok(Some(Principal::Name(name.to_string()))),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// What `-a` and `--preserve=all` mean; the security context only by its own name.
    All,
    Mode,
    Times,
    Owner,
    Group,
    Ownership,
    Specials,
    HardLinks,
    Acl,
    Xattr,
    Sparse,
    Links,
    Context,
}

/// Option, what it is about, on or off.
const SWITCHES: [(&str, What, bool); 21] = [
    ("archive", What::All, true),
    ("perms", What::Mode, true),
    ("times", What::Times, true),
    ("owner", What::Owner, true),
    ("group", What::Group, true),
    ("specials", What::Specials, true),
    ("hard_links", What::HardLinks, true),
    ("acls", What::Acl, true),
    ("xattrs", What::Xattr, true),
    ("sparse", What::Sparse, true),
    ("links", What::Links, true),
    ("no_perms", What::Mode, false),
    ("no_times", What::Times, false),
    ("no_owner", What::Owner, false),
    ("no_group", What::Group, false),
    ("no_specials", What::Specials, false),
    ("no_hard_links", What::HardLinks, false),
    ("no_acls", What::Acl, false),
    ("no_xattrs", What::Xattr, false),
    ("no_sparse", What::Sparse, false),
    ("no_links", What::Links, false),
];

/// What `-a` preserves.
pub fn all() -> Attributes {
    let mut all = Attributes::only(MetaMask::NONE);
    switch(&mut all, What::All, true);
    all
}

fn switch(to: &mut Attributes, what: What, on: bool) {
    let mask = match what {
        What::Mode => MetaMask::MODE.with(MetaMask::SETID),
        What::Times => MetaMask::MTIME,
        What::Owner => MetaMask::OWNER,
        What::Group => MetaMask::GROUP,
        What::Ownership => MetaMask::OWNER.with(MetaMask::GROUP),
        What::Acl => MetaMask::ACL,
        What::Xattr => MetaMask::XATTR,
        What::Context => MetaMask::CONTEXT,
        What::Specials => return to.links.specials = on,
        What::HardLinks => return to.links.hard = on,
        What::Links => return to.links.copy = on,
        What::Sparse => return to.sparse = on,
        What::All => {
            const ALL: [What; 9] = [
                What::Mode,
                What::Times,
                What::Ownership,
                What::Acl,
                What::Xattr,
                What::Specials,
                What::HardLinks,
                What::Links,
                What::Sparse,
            ];
            return ALL.into_iter().for_each(|each| switch(to, each, on));
        }
    };
    to.keep = if on { to.keep.with(mask) } else { to.keep.without(mask) };
}

impl KeepArgs {
    /// Applies what was written to `base`, in its order.
    pub(super) fn resolve(given: &ArgMatches, base: Attributes, environment: &Environment<'_>) -> Result<Attributes, Refusal> {
        let mut attributes = base;
        for (_, id, nth) in in_order(given, SWITCHES.iter().map(|(id, ..)| *id).chain(["preserve"])) {
            match SWITCHES.iter().find(|(switch, ..)| *switch == id) {
                Some((_, what, on)) => switch(&mut attributes, *what, *on),
                None => {
                    let lists = given.get_many::<Preserve>("preserve").into_iter().flatten();
                    lists.skip(nth).take(1).flat_map(|list| &list.0).for_each(|what| switch(&mut attributes, *what, true));
                }
            }
        }
        attributes.links.follow = given.get_flag("copy_links");
        attributes.links.safe = given.get_flag("safe_links");
        attributes.links.keep_dirlinks = given.get_flag("keep_dirlinks");
        for text in given.get_many::<String>("chmod").into_iter().flatten() {
            attributes.chmod.extend(units::parse_rsync_chmod(text, environment.umask).map_err(|reason| format!("--chmod {reason}"))?);
        }
        // Special bits that are asked for by name are set without -p, which would also copy those of the source.
        let asks = |change: &ModeChange| change.add & 0o6000 != 0;
        if attributes.keep.has(MetaMask::MODE) && !attributes.keep.has(MetaMask::SETID) && attributes.chmod.iter().any(asks) {
            let cleared = ModeChange { files: true, dirs: true, keep: 0o1777, add: 0, add_if_exec: 0, copy: None };
            attributes.chmod.insert(0, cleared);
            attributes.keep = attributes.keep.with(MetaMask::SETID);
        }
        attributes.owner = given.get_one::<Owner>("chown").cloned();
        attributes.numeric_ids = given.get_flag("numeric_ids");
        Ok(attributes)
    }
}
