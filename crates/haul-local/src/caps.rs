//! The abilities of the file system under a root, by its type.

use std::time::Duration;

use haul_core::entry::MetaMask;
use haul_core::store::time_range;
use haul_core::store::{AttributeCaps, Caps, NameRules, Proof, Tuning};
use haul_core::stripe::Stripe;
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{AtFlags, IFlags, StatxFlags};

const EXT: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683E;
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58F6;
const NFS: u64 = 0x6969;
const FUSE: u64 = 0x6573_5546;
const OVERLAY: u64 = 0x794C_7630;
const VFAT: u64 = 0x4D44;
const EXFAT: u64 = 0x2011_BAB0;
const CIFS: u64 = 0xFF53_4D42;
const SMB2: u64 = 0xFE53_4D42;
const LUSTRE: u64 = 0x0BD0_0BD0;
const GPFS: u64 = 0x4750_4653;
const F2FS: u64 = 0xF2F5_2010;
const ZFS: u64 = 0x2FC1_2FC1;
const CEPH: u64 = 0x00C3_6400;
const BEEGFS: u64 = 0x1983_0326;

/// The inode flag of a directory whose names fold case (ext4, f2fs).
const CASEFOLD: u32 = 0x4000_0000;

#[derive(Clone, Copy, Debug)]
pub(super) struct FileSystem {
    pub name: &'static str,
    /// Preallocates without writing zeros.
    pub preallocates: bool,
    /// Several writers of one file gain: elsewhere its inode is locked by one at a time.
    pub parallel_writes: bool,
    /// Close may report what a write did not: the data leave for a server then.
    pub speaks_at_close: bool,
    /// New files can be laid out over servers.
    pub stripes: bool,
}

pub(super) fn find_out(root: impl AsFd, stripe: Stripe) -> rustix::io::Result<(FileSystem, Caps)> {
    let magic = rustix::fs::fstatfs(&root)?.f_type as u64 & 0xFFFF_FFFF;
    let name_max = rustix::fs::fstatvfs(&root)?.f_namemax;
    let name = match magic {
        EXT => "ext4",
        XFS => "xfs",
        BTRFS => "btrfs",
        TMPFS => "tmpfs",
        RAMFS => "ramfs",
        NFS => "nfs",
        FUSE => "fuse",
        OVERLAY => "overlay",
        VFAT => "vfat",
        EXFAT => "exfat",
        CIFS | SMB2 => "cifs",
        LUSTRE => "lustre",
        GPFS => "gpfs",
        F2FS => "f2fs",
        ZFS => "zfs",
        CEPH => "ceph",
        BEEGFS => "beegfs",
        _ => "other",
    };
    let mtime_resolution = match magic {
        VFAT => Duration::from_secs(2),
        EXFAT => Duration::from_millis(10),
        // Small inodes (ext3, and ext4 made so) have room neither for nanoseconds nor for a time of birth.
        EXT if !has_birth_time(&root) => Duration::from_secs(1),
        CIFS | SMB2 => Duration::from_nanos(100),
        FUSE => Duration::ZERO,
        _ => Duration::from_nanos(1),
    };
    let mtime_range = match magic {
        VFAT | EXFAT => time_range::FAT,
        EXT if has_birth_time(&root) => time_range::EXT4,
        XFS if has_bigtime(&root) => time_range::XFS,
        EXT | XFS => time_range::SMALL,
        _ => time_range::ANY,
    };
    let folds_case = matches!(magic, VFAT | EXFAT | CIFS | SMB2)
        || rustix::fs::ioctl_getflags(&root).is_ok_and(|flags: IFlags| flags.bits() & CASEFOLD != 0);
    let posix = !matches!(magic, VFAT | EXFAT);
    let file_system = FileSystem {
        name,
        preallocates: matches!(magic, EXT | XFS | BTRFS | F2FS),
        stripes: magic == LUSTRE,
        parallel_writes: !matches!(magic, EXT | XFS | BTRFS | F2FS | TMPFS | RAMFS),
        speaks_at_close: !matches!(magic, EXT | XFS | BTRFS | TMPFS | RAMFS | F2FS | VFAT | EXFAT),
    };
    let caps = Caps {
        links: posix,
        specials: posix,
        hard_links: posix,
        signatures: true,
        attach: true,
        proof: if matches!(magic, TMPFS | RAMFS) { Proof::Cache } else { Proof::Medium },
        names: NameRules { max: usize::try_from(name_max).unwrap_or(255), folds_case, ..NameRules::minimal() },
        attributes: AttributeCaps {
            sets: if posix { MetaMask::SETTABLE } else { MetaMask::MTIME },
            groups: if rustix::process::geteuid().is_root() { None } else { Some(own_groups()) },
            lists: MetaMask::NONE,
            mtime_resolution,
            mtime_range,
            ..Caps::posix().attributes
        },
        tuning: Tuning {
            writers_per_file: if matches!(magic, LUSTRE | GPFS) { 4 } else { 1 },
            chunk_unit: if magic == LUSTRE { stripe.unit() } else { 1 },
            ..Caps::posix().tuning
        },
        ..Caps::posix()
    };
    Ok((file_system, caps))
}

/// The groups that this process may give its files.
fn own_groups() -> Vec<u32> {
    let mut groups: Vec<u32> = rustix::process::getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw()).collect();
    groups.push(rustix::process::getegid().as_raw());
    groups
}

/// XFS_FSOP_GEOM_FLAGS_BIGTIME by XFS_IOC_FSGEOMETRY: xfs_fs.h of Linux. What does not answer is of before 2021, and has none.
fn has_bigtime(root: impl AsFd) -> bool {
    const GEOMETRY: u64 = 0x8100_587e;
    let mut geometry = [0_u32; 64];
    // SAFETY: the kernel writes the 256 bytes of `struct xfs_fsop_geom`, whose flags are the 24th word.
    let done = unsafe { libc::ioctl(root.as_fd().as_raw_fd(), GEOMETRY as _, geometry.as_mut_ptr()) };
    done == 0 && geometry[23] & 1 << 21 != 0
}

fn has_birth_time(root: impl AsFd) -> bool {
    rustix::fs::statx(root, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME).is_ok_and(|st| st.stx_mask & StatxFlags::BTIME.bits() != 0)
}
