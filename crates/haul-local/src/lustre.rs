//! New files with a layout of their own on Lustre. Never run on a Lustre: see docs/cluster.md.
//!
//! A layout is set before the file is opened for writing, which is when its servers are chosen: the file is made by `mknod`, gets the
//! extended attribute `lustre.lov` (`struct lov_user_md_v1` of `lustre_user.h`; what `tar` and `cp` restore layouts by), and is opened then. No
//! header and no library of Lustre is needed.

use haul_core::stripe::Layout;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, XattrFlags, mknodat, openat, setxattr};

use super::sink::WRITE;
use super::xattr::proc_path;

const ATTRIBUTE: &str = "lustre.lov";
/// `LOV_USER_MAGIC_V1`
const MAGIC: u32 = 0x0BD1_0BD0;
/// `LOV_PATTERN_RAID0`
const PATTERN: u32 = 1;
/// `lmm_stripe_offset`: any server is the first.
const ANY: u16 = u16::MAX;

/// `struct lov_user_md_v1` without objects, in this machine's byte order: magic, pattern, the object's identity (16 bytes, filled in by
/// Lustre), stripe size, stripe count, the first server.
fn encoded(layout: Layout) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[4..8].copy_from_slice(&PATTERN.to_ne_bytes());
    bytes[24..28].copy_from_slice(&layout.size.to_ne_bytes());
    bytes[28..30].copy_from_slice(&layout.count.to_ne_bytes());
    bytes[30..].copy_from_slice(&ANY.to_ne_bytes());
    bytes
}

/// Makes a file that is not there yet, and opens it for writing. A layout that the file system refuses is a loss of speed only.
pub(super) fn create(dir: impl AsFd, leaf: &[u8], mode: u32, layout: Layout) -> rustix::io::Result<OwnedFd> {
    mknodat(&dir, leaf, FileType::RegularFile, Mode::from_raw_mode(mode), 0)?;
    let file = openat(&dir, leaf, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let _ = setxattr(proc_path(file.as_fd()), ATTRIBUTE, &encoded(layout), XattrFlags::empty());
    openat(&dir, leaf, WRITE, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_has_the_documented_form() {
        let bytes = encoded(Layout { count: 0x0102, size: 0x0304_0000 });
        let mut expected = Vec::new();
        for number in [0x0BD1_0BD0_u32, 1, 0, 0, 0, 0, 0x0304_0000] {
            expected.extend(number.to_ne_bytes());
        }
        expected.extend(0x0102_u16.to_ne_bytes());
        expected.extend([0xff, 0xff]);
        assert_eq!(bytes[..], expected[..]);
    }

    #[test]
    fn elsewhere_the_file_is_made_without_one() {
        let place = tempfile::tempdir().unwrap();
        let dir = rustix::fs::open(place.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        let layout = Layout { count: 4, size: 1 << 20 };
        let file = create(&dir, b"new", 0o600, layout).unwrap();
        rustix::io::write(&file, b"content").unwrap();
        assert_eq!(std::fs::read(place.path().join("new")).unwrap(), b"content");
        assert_eq!(create(&dir, b"new", 0o600, layout).unwrap_err(), rustix::io::Errno::EXIST);
        std::os::unix::fs::symlink("new", place.path().join("link")).unwrap();
        assert_eq!(create(&dir, b"link", 0o600, layout).unwrap_err(), rustix::io::Errno::EXIST);
    }
}
