//! An entry's attributes as metadata.

use haul_core::entry::{Entry, Kind, MetaMask, Time};
use haul_core::error::{Error, ErrorKind, Result};

use super::{DECIMAL_LINK, FARTHEST, bits_of, is_owner_name, word_of, xattrs};

/// Bytes of metadata that an object can have, all names and values together.
pub const MOST: usize = 2048;

/// What the service puts before a name, and some services count.
const BEFORE: usize = "x-amz-meta-".len();

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Names without `x-amz-meta-`, in lower case, and values, all of printable ASCII.
    pub headers: Vec<(&'static str, String)>,
    /// What was to be kept and is not: it does not fit, or no reader would believe it.
    pub refused: MetaMask,
    /// Not even the kind fits, of something that is no file or directory: to send it would make a file of it.
    pub kind_lost: bool,
}

/// Bytes that one item counts against [`MOST`].
pub fn cost(name: &str, value: &str) -> usize {
    cost_of(name.len(), value.len())
}

/// [`cost`] by lengths.
pub fn cost_of(name: usize, value: usize) -> usize {
    BEFORE + name + value
}

impl Written {
    /// Itself, or an error where what was written would make a plain file of something else.
    pub fn of_its_kind(self, op: &'static str) -> Result<Written> {
        if !self.kind_lost {
            return Ok(self);
        }
        let e = Error::new(ErrorKind::Unsupported, op);
        let e = e.because(format!("the object's metadata, {MOST} bytes at most, have no room left for the file type"));
        Err(e.hint("less --metadata"))
    }
}

/// Writes those attributes of an entry that are in `keep` and that it has. `used` is the [`cost`] of the user's own metadata; the
/// caller resolves names used by both. Most important first: kind, times, mode, owners, then extended attributes class by class.
pub fn write(entry: &Entry, keep: MetaMask, used: usize) -> Written {
    let mut room = Room { left: MOST.saturating_sub(used), written: Written::default() };
    // A copy of an object is given nothing that the object lacks.
    let keep = keep.without(entry.headers.as_ref().map_or(MetaMask::NONE, |headers| headers.lacks));
    // Bits that lend rights are part of the mode; extended attributes are there or not.
    let extended = MetaMask::ACL.with(MetaMask::XATTR).with(MetaMask::CONTEXT);
    let keep = keep.and(entry.have.with(MetaMask::SETID).with(if entry.xattrs.is_some() { extended } else { MetaMask::NONE }));
    let mode = mode(entry, keep);
    match (mode, word_of(entry.kind)) {
        (Some(mode), _) => {
            let fits = room.put("mode", octal(mode), keep.and(MetaMask::MODE.with(MetaMask::SETID)));
            room.written.kind_lost = !fits && !matches!(entry.kind, Kind::File | Kind::Dir);
        }
        (None, Some(word)) => room.written.kind_lost = !room.put("haul-kind", word.into(), MetaMask::NONE),
        (None, None) => {}
    }
    if matches!(entry.kind, Kind::Char | Kind::Block) && entry.rdev != 0 {
        room.written.kind_lost |= !room.put("rdev", device(entry.rdev), MetaMask::NONE);
    }
    if keep.has(MetaMask::MTIME) {
        match seconds(entry.mtime) {
            Some(text) => drop(room.put("mtime", text, MetaMask::MTIME)),
            None => room.refuse(MetaMask::MTIME),
        }
    }
    for (id, name, class) in [(entry.uid, "uid", MetaMask::OWNER), (entry.gid, "gid", MetaMask::GROUP)] {
        // The highest number means "as it is" to chown(2).
        match keep.has(class) {
            true if id == u32::MAX => room.refuse(class),
            true => drop(room.put(name, id.to_string(), class)),
            false => {}
        }
    }
    let names = [("haul-owner", entry.user_name(), MetaMask::OWNER), ("haul-group", entry.group_name(), MetaMask::GROUP)];
    for (key, name, class) in names {
        // Without room for it, or where no header can hold it, there is the number.
        if let Some(name) = name.filter(|name| keep.has(class) && is_owner_name(name)) {
            room.put(key, String::from_utf8_lossy(name).into_owned(), MetaMask::NONE);
        }
    }
    let classes = keep.and(xattrs::ALL);
    if let Some(theirs) = entry.xattrs.as_deref().filter(|_| !classes.is_empty()) {
        let most = room.left.saturating_sub(cost(xattrs::NAME, ""));
        let (kept, value) = xattrs::write(theirs, classes, most);
        if let Some(value) = value {
            room.put(xattrs::NAME, value, MetaMask::NONE);
        }
        room.refuse(classes.without(kept));
    }
    room.written
}

struct Room {
    left: usize,
    written: Written,
}

impl Room {
    /// Adds an item, or refuses these attributes and says `false` where it does not fit.
    fn put(&mut self, name: &'static str, value: String, attributes: MetaMask) -> bool {
        let cost = cost(name, &value);
        if cost > self.left {
            self.refuse(attributes);
            return false;
        }
        self.left -= cost;
        self.written.headers.push((name, value));
        true
    }

    fn refuse(&mut self, attributes: MetaMask) {
        self.written.refused = self.written.refused.with(attributes);
    }
}

/// `st_mode` as far as it is kept. A link has no permissions of its own, so that its mode tells nothing but its kind.
fn mode(entry: &Entry, keep: MetaMask) -> Option<u32> {
    let bits = bits_of(entry.kind)?;
    if entry.kind == Kind::Link {
        return Some(bits | 0o777);
    }
    if !keep.has(MetaMask::MODE) {
        return None;
    }
    let plain = if entry.kind == Kind::Dir { 0o1777 } else { 0o777 };
    let special = if keep.has(MetaMask::SETID) { 0o7000 } else { 0 };
    Some(bits | entry.mode & (plain | special))
}

/// Major and minor number, 32 bits each, but for a major number of 0, which stays as it is packed.
fn device(rdev: u64) -> String {
    match (u64::from(rustix::fs::major(rdev)), u64::from(rustix::fs::minor(rdev))) {
        (0, _) => format!("{rdev:x}"),
        (major, minor) => format!("{:x}", major << 32 | minor),
    }
}

/// `100644`. Where a reader could take the digits for s3fs's decimal symlink, a zero before them says that they are not.
fn octal(mode: u32) -> String {
    let text = format!("{mode:o}");
    if text == DECIMAL_LINK { format!("0{text}") } else { text }
}

/// `1704164645.678`; before 1970 with a sign before all of it, as rclone has it. `None` if it is too far from now.
fn seconds(time: Time) -> Option<String> {
    if time.secs.abs() > FARTHEST || time.nanos > 999_999_999 {
        return None;
    }
    let (sign, secs, nanos) = match (time.secs, time.nanos) {
        (secs @ 0.., nanos) => ("", secs, nanos),
        (secs, 0) => ("-", -secs, 0),
        (secs, nanos) => ("-", -(secs + 1), 1_000_000_000 - nanos),
    };
    Some(format!("{sign}{secs}{}", decimals(nanos)))
}

/// `.678`, without zeros at the end; empty for none.
fn decimals(nanos: u32) -> String {
    if nanos == 0 {
        return String::new();
    }
    format!(".{nanos:09}").trim_end_matches('0').to_owned()
}
