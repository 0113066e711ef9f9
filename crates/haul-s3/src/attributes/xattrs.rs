//! Extended attributes in one value: letters for the classes that are kept, a colon, and in base64 for each
//! attribute the length of its name, the name, the length of its value and the value, lengths as LEB128.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use haul_core::entry::{MetaMask, Xattrs};
use haul_core::varint;

pub(super) const NAME: &str = "haul-xattrs";

pub(super) const ALL: MetaMask = MetaMask(MetaMask::ACL.0 | MetaMask::XATTR.0 | MetaMask::CONTEXT.0);

/// In the order of what is kept first where not all fits: who may read a file matters more than what is noted on it.
const CLASSES: [(MetaMask, char); 3] = [(MetaMask::ACL, 'a'), (MetaMask::XATTR, 'x'), (MetaMask::CONTEXT, 'c')];

const LONGEST_NAME: usize = 255;

/// The class of a name, or `None` for what never travels.
fn class(name: &[u8]) -> Option<MetaMask> {
    match name {
        b"system.posix_acl_access" | b"system.posix_acl_default" | b"system.nfs4_acl" => Some(MetaMask::ACL),
        b"security.selinux" => Some(MetaMask::CONTEXT),
        b"security.capability" => Some(MetaMask::XATTR),
        b"trusted.lov" | b"trusted.lma" | b"trusted.link" => None,
        _ if name.starts_with(b"user.") || name.starts_with(b"trusted.") => Some(MetaMask::XATTR),
        _ => None,
    }
}

/// The value that holds as many of these classes as fit into `most` bytes, each whole or not at all, and which
/// they are. `None` if there is no class that fits.
pub(super) fn write(xattrs: &Xattrs, classes: MetaMask, most: usize) -> (MetaMask, Option<String>) {
    let mut kept = MetaMask::NONE;
    let mut value = None;
    for (class, _) in CLASSES.iter().filter(|(class, _)| classes.has(*class)) {
        let wider = kept.with(*class);
        let text = text(xattrs, wider);
        if text.len() <= most {
            kept = wider;
            value = Some(text);
        }
    }
    (kept, value)
}

fn text(xattrs: &Xattrs, classes: MetaMask) -> String {
    let mut bytes = Vec::new();
    for (name, value) in xattrs.iter().filter(|(name, _)| class(name).is_some_and(|class| classes.has(class))) {
        for part in [name, value] {
            varint::put(&mut bytes, part.len() as u64);
            bytes.extend_from_slice(part);
        }
    }
    let mut text: String = CLASSES.iter().filter(|(class, _)| classes.has(*class)).map(|(_, letter)| *letter).collect();
    text.push(':');
    BASE64.encode_string(bytes, &mut text);
    text
}

/// The reverse. `None` for what `write` cannot have written: a letter that is none, a name twice, without a class
/// or of a class that is not kept, or a byte too few or too many.
pub(super) fn read(text: &str) -> Option<(MetaMask, Xattrs)> {
    let (letters, encoded) = text.trim_ascii().split_once(':')?;
    let mut classes = MetaMask::NONE;
    for letter in letters.chars() {
        let (class, _) = CLASSES.iter().find(|(_, known)| *known == letter)?;
        classes = classes.with(*class);
    }
    if classes.is_empty() || encoded.len() > super::MOST {
        return None;
    }
    let bytes = BASE64.decode(encoded).ok()?;
    let mut rest = bytes.as_slice();
    let mut xattrs = Xattrs::new();
    while !rest.is_empty() {
        let (name, behind) = piece(rest)?;
        let (value, behind) = piece(behind)?;
        rest = behind;
        let known = name.len() <= LONGEST_NAME && !name.contains(&0) && classes.has(class(name)?);
        if !known || xattrs.iter().any(|(other, _)| **other == *name) {
            return None;
        }
        xattrs.push((name.into(), value.into()));
    }
    xattrs.sort();
    Some((classes, xattrs))
}

/// A length and so many bytes, and what comes behind them.
fn piece(mut bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(varint::take(&mut bytes)?).ok()?;
    bytes.split_at_checked(length)
}
