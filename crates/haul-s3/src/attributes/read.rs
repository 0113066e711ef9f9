//! Metadata as a file's attributes, whoever wrote it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_core::entry::{Kind, Time};
use haul_core::hash::unhex;

use super::{DECIMAL_LINK, FARTHEST, FileAttributes, is_owner_name, kind_of, word_of, xattrs};
use haul_net::http_client::time::iso;

/// The user's metadata among an answer's headers: names without `x-amz-meta-`.
pub fn user_metadata<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> impl Iterator<Item = (&'a str, &'a str)> {
    const BEFORE: &str = "x-amz-meta-";
    headers.into_iter().filter_map(|(name, value)| {
        let (before, name) = name.split_at_checked(BEFORE.len())?;
        before.eq_ignore_ascii_case(BEFORE).then_some((name, value))
    })
}

/// Reads metadata, names in any case and without `x-amz-meta-`. Where several tools left theirs, rclone's keys,
/// which are haul's, come before DataSync's, those before what s3cmd and MinIO's client pack into one value.
pub fn read<'a>(metadata: impl IntoIterator<Item = (&'a str, &'a str)>) -> FileAttributes {
    let (mut own, mut files, mut packed) = (FileAttributes::default(), FileAttributes::default(), FileAttributes::default());
    let mut word = None;
    for (name, value) in metadata {
        let value = value.trim_ascii();
        match name.to_ascii_lowercase().as_str() {
            "mtime" => own.mtime = seconds(value).or_else(|| iso(value)),
            "atime" => own.atime = seconds(value).or_else(|| iso(value)),
            "mode" => (own.kind, own.mode) = mode(value),
            "uid" => own.uid = id(value),
            "gid" => own.gid = id(value),
            "haul-owner" => own.user = owner_name(value),
            "haul-group" => own.group = owner_name(value),
            "rdev" => own.rdev = device(value),
            "md5chksum" => own.md5 = STANDARD.decode(value).ok().and_then(|md5| md5.try_into().ok()),
            "haul-kind" => word = kind_named(value),
            xattrs::NAME => own.xattrs = xattrs::read(value),
            "file-mtime" => files.mtime = nanoseconds(value),
            "file-atime" => files.atime = nanoseconds(value),
            "file-permissions" => (files.kind, files.mode) = octal(value).map_or((None, None), parts),
            "file-owner" => files.uid = id(value),
            "file-group" => files.gid = id(value),
            "s3cmd-attrs" | "mc-attrs" => unpack(value, &mut packed),
            _ => {}
        }
    }
    own.kind = word.or(own.kind);
    // A name belongs to the number that was written with it.
    own.user = own.user.filter(|_| own.uid.is_some());
    own.group = own.group.filter(|_| own.gid.is_some());
    [files, packed].into_iter().fold(own, FileAttributes::or)
}

impl FileAttributes {
    /// What is not known is taken from `other`. Kind and mode are one value, and are taken together.
    fn or(self, other: FileAttributes) -> FileAttributes {
        let (kind, mode) = if self.mode.is_some() { (self.kind, self.mode) } else { (self.kind.or(other.kind), other.mode) };
        FileAttributes {
            kind,
            mode,
            mtime: self.mtime.or(other.mtime),
            atime: self.atime.or(other.atime),
            uid: self.uid.or(other.uid),
            gid: self.gid.or(other.gid),
            user: self.user.or(other.user),
            group: self.group.or(other.group),
            rdev: self.rdev.or(other.rdev),
            xattrs: self.xattrs.or(other.xattrs),
            md5: self.md5.or(other.md5),
        }
    }
}

/// `atime:1700000000/gid:0/gname:root/md5:HEX/mode:33188/mtime:1700000000#123456789/uid:0/uname:root`: s3cmd without
/// decimals, MinIO's client with nanoseconds behind a `#`. The mode is decimal.
fn unpack(text: &str, into: &mut FileAttributes) {
    for (name, value) in text.split('/').filter_map(|item| item.split_once(':')) {
        match name.trim_ascii() {
            "mtime" => into.mtime = packed_time(value),
            "atime" => into.atime = packed_time(value),
            "mode" => (into.kind, into.mode) = whole(value).and_then(|mode| mode.try_into().ok()).map_or((None, None), parts),
            "uid" => into.uid = id(value),
            "gid" => into.gid = id(value),
            "md5" => into.md5 = unhex(value).and_then(|md5| md5.try_into().ok()),
            _ => {}
        }
    }
}

fn packed_time(text: &str) -> Option<Time> {
    match text.split_once('#') {
        None => seconds(text),
        Some((secs, nanos)) => {
            let nanos = u32::try_from(whole(nanos)?).ok().filter(|nanos| *nanos < 1_000_000_000)?;
            let time = seconds(secs)?;
            (time.nanos == 0).then_some(Time { nanos, ..time })
        }
    }
}

fn whole(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Decimal seconds since 1970, a sign before all of them.
fn seconds(text: &str) -> Option<Time> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (secs, nanos) = match text.split_once('.') {
        Some((secs, decimals)) => (secs, fraction(decimals.as_bytes())?),
        None => (text, 0),
    };
    let secs = i64::try_from(whole(secs)?).ok().filter(|secs| *secs <= FARTHEST)?;
    Some(match (negative, nanos) {
        (false, _) => Time { secs, nanos },
        (true, 0) => Time { secs: -secs, nanos: 0 },
        (true, _) => Time { secs: -secs - 1, nanos: 1_000_000_000 - nanos },
    })
}

/// Decimals of a second as nanoseconds. What is finer is cut off; `None` without any digit.
fn fraction(decimals: &[u8]) -> Option<u32> {
    if decimals.is_empty() || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some((0..9).fold(0, |nanos, i| nanos * 10 + decimals.get(i).map_or(0, |digit| u32::from(digit - b'0'))))
}

/// `1595002920000000000ns`.
fn nanoseconds(text: &str) -> Option<Time> {
    let digits = text.strip_suffix("ns").unwrap_or(text);
    let nanos: i128 = match digits.strip_prefix('-') {
        Some(digits) => -i128::from(whole(digits)?),
        None => i128::from(whole(digits)?),
    };
    let secs = i64::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
    Some(Time { secs, nanos: u32::try_from(nanos.rem_euclid(1_000_000_000)).ok()? })
}

/// A user or a group. The highest number is no one: to chown(2) it means "as it is".
fn id(text: &str) -> Option<u32> {
    whole(text).and_then(|id| u32::try_from(id).ok()).filter(|id| *id != u32::MAX)
}

fn owner_name(text: &str) -> Option<Box<[u8]>> {
    is_owner_name(text.as_bytes()).then(|| text.as_bytes().into())
}

/// A `mode` in octal as rclone writes it, or in decimal as s3fs does. Both are digits: whichever gives a type of
/// file is meant, and octal if both do, but for [`DECIMAL_LINK`].
fn mode(text: &str) -> (Option<Kind>, Option<u32>) {
    let octal = octal(text);
    let decimal = whole(text).and_then(|mode| u32::try_from(mode).ok());
    match (octal, decimal) {
        (_, Some(decimal)) if text == DECIMAL_LINK => parts(decimal),
        (Some(octal), _) if octal <= 0o7777 || kind_of(octal & !0o7777).is_some() => parts(octal),
        (_, Some(decimal)) if decimal > 0o7777 => parts(decimal),
        _ => (None, None),
    }
}

fn octal(text: &str) -> Option<u32> {
    whole(text).and_then(|_| u32::from_str_radix(text, 8).ok())
}

/// `st_mode` in its two parts; permissions alone have no kind, and a kind that there is not makes all of it void.
fn parts(mode: u32) -> (Option<Kind>, Option<u32>) {
    let (bits, mode) = (mode & !0o7777, mode & 0o7777);
    match kind_of(bits) {
        None if bits != 0 => (None, None),
        kind => (kind, Some(mode)),
    }
}

/// Major and minor number in hexadecimal: 32 bits each, or, where the major one would be 0, which no device has, as
/// an older kernel's `st_rdev` packs them.
fn device(text: &str) -> Option<u64> {
    if text.is_empty() || text.len() > 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let packed = u64::from_str_radix(text, 16).ok()?;
    let (major, minor) = (u32::try_from(packed >> 32).ok()?, u32::try_from(packed & 0xffff_ffff).ok()?);
    Some(if major == 0 { packed } else { rustix::fs::makedev(major, minor) })
}

fn kind_named(word: &str) -> Option<Kind> {
    [Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block].into_iter().find(|kind| word_of(*kind) == Some(word))
}
