//! A tree with everything that a file system allows and a careless program gets wrong.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, XattrFlags, linkat, lsetxattr, makedev, mkdirat, mknodat, openat};
use rustix::io::Errno;

use crate::content;
use crate::tree::{Tree, set_mtime, write_content, write_file};

/// Levels of the deep path, with names of [`DEEP_NAME`] bytes: longer than `PATH_MAX` (4096) in all.
const DEEP_LEVELS: usize = 20;
/// Length in bytes of each name of the deep path.
const DEEP_NAME: usize = 250;

/// Names that a program may trip over, all of them allowed.
pub fn names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        b" leading space".as_slice(),
        b"trailing space ",
        b"two\nlines",
        b"tab\tbell\x07escape\x1b[31m",
        b"delete\x7f",
        b"invalid \xff\xfe utf-8",
        b"latin caf\xe9",
        b"-rf",
        b"--delete",
        b"%2F",
        b"100%",
        b"..x",
        b"...",
        b"~",
        b"#comment",
        b"a:b",
        b"host:path",
        b"s3:",
        b"*",
        b"?[a-z]",
        b"{a,b}",
        b"back\\slash",
        b"\"quoted\" 'name'",
        b"$HOME `id` $(id);&|<>",
        b"case",
        b"CASE",
        "composed \u{e9}".as_bytes(),
        "decomposed e\u{301}".as_bytes(),
        "\u{1f69a} emoji".as_bytes(),
        "right \u{202e} left".as_bytes(),
        b"CON",
        b"dot.",
    ]
    .iter()
    .map(|name| name.to_vec())
    .collect();
    names.push(vec![b'n'; 255]);
    names.push("\u{e9}".repeat(127).into_bytes());
    names
}

/// Makes the tree in `root` (made when absent). Gives back what had to be left out, for want of root or of the file system's support, a line each.
///
/// It holds no more than a few MiB of data.
pub fn build(root: &Path) -> io::Result<Vec<String>> {
    deep(root)?;
    let tree = Tree::new(root)?;
    let mut left_out = Vec::new();
    hostile_names(&tree)?;
    tree.build(
        "sparse: holes=~64M@0+4K,32M+64K,60M+1 all-hole=~8M dense=300K \
         links: a=5000 b=>a sub/c=>a l->a dangling->nowhere loop->loop absolute->/etc/passwd up->../names \
         l2=>l p| p2=>p",
    )?;
    symlink(OsStr::from_bytes(&[b't'; 1000]), tree.join("links/long-target"))?;
    tree.build("plain: empty=0 one=1 page=4096 page+1=4097 mib=1M empty-directory/ d/e/f/g=10")?;
    special_files(&tree, &mut left_out)?;
    attributes(&tree, &mut left_out)?;
    owners(&tree, &mut left_out)?;
    times(&tree)?;
    modes(&tree)?;
    Ok(left_out)
}

fn hostile_names(tree: &Tree) -> io::Result<()> {
    fs::create_dir(tree.join("names"))?;
    fs::create_dir(tree.join("directories"))?;
    for (index, name) in names().iter().enumerate() {
        let name = OsStr::from_bytes(name);
        write_file(&tree.join("names").join(name), index as u64 * 100)?;
        // Half of them as directories too, with a file inside.
        if index % 2 == 0 {
            fs::create_dir(tree.join("directories").join(name))?;
            write_file(&tree.join("directories").join(name).join("inside"), 10)?;
        }
    }
    Ok(())
}

/// The path beyond `PATH_MAX` alone: directories, and at its bottom a file `bottom`, a hard link `hard` and a symlink `link` to it.
pub fn deep(root: &Path) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut directory = openat(CWD, root, flags, Mode::empty())?;
    for level in 0..DEEP_LEVELS {
        let name = vec![b'a' + level as u8; DEEP_NAME];
        mkdirat(&directory, name.as_slice(), Mode::from_raw_mode(0o755))?;
        directory = openat(&directory, name.as_slice(), flags, Mode::empty())?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file: OwnedFd = openat(&directory, "bottom", flags, Mode::from_raw_mode(0o640))?;
    write_content(&file, content::seed(b"bottom"), 0, 5000, &mut [0; 5000])?;
    rustix::fs::symlinkat("bottom", &directory, "link")?;
    Ok(linkat(&directory, "bottom", &directory, "hard", AtFlags::empty())?)
}

fn special_files(tree: &Tree, left_out: &mut Vec<String>) -> io::Result<()> {
    fs::create_dir(tree.join("special"))?;
    let node = |name: &str, kind, device| mknodat(CWD, tree.join("special").join(name), kind, Mode::from_raw_mode(0o640), device);
    node("fifo", FileType::Fifo, 0)?;
    node("socket", FileType::Socket, 0)?;
    for (name, kind, device) in [
        ("character", FileType::CharacterDevice, makedev(1, 3)),
        ("block", FileType::BlockDevice, makedev(7, 200)),
        ("large-numbers", FileType::CharacterDevice, makedev(300, 70_000)),
    ] {
        match node(name, kind, device) {
            Err(Errno::PERM) => left_out.push(format!("special/{name}: making devices needs root")),
            made => made?,
        }
    }
    Ok(())
}

/// A POSIX ACL as the kernel takes it: version 2, then (tag, permissions, id) each.
fn acl(named_user: u32, user_permissions: u16) -> Vec<u8> {
    let nobody = u32::MAX;
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 6, nobody), (0x02, user_permissions, named_user), (0x04, 4, nobody), (0x10, 7, nobody), (0x20, 0, nobody)];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn attributes(tree: &Tree, left_out: &mut Vec<String>) -> io::Result<()> {
    tree.build("attributes: user=100 large=100 acl=100 trusted=100 capability=100 default/below=10 directory/")?;
    // More than an inode takes beside itself, less than the 1 KiB blocks that small ext4 volumes have.
    let large = vec![0xa5; 800];
    // Revision 2, effective, CAP_NET_RAW permitted.
    let capability = [[1, 0, 0, 2], [0, 0x20, 0, 0], [0; 4], [0; 4], [0; 4]].concat();
    let wanted: [(&str, &str, &[u8]); 9] = [
        ("user", "user.plain", b"value"),
        ("user", "user.empty", b""),
        ("user", "user.binary \u{e9}", b"\0\xff\n"),
        ("large", "user.large", &large),
        ("directory", "user.on-directory", b"yes"),
        ("acl", "system.posix_acl_access", &acl(12345, 7)),
        ("default", "system.posix_acl_default", &acl(54321, 6)),
        ("trusted", "trusted.haul", b"root's"),
        ("capability", "security.capability", &capability),
    ];
    for (path, name, value) in wanted {
        match lsetxattr(tree.join("attributes").join(path), name, value, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::NOSPC) => left_out.push(format!("attributes/{path}: {name} is not supported here")),
            set => set?,
        }
    }
    Ok(())
}

fn owners(tree: &Tree, left_out: &mut Vec<String>) -> io::Result<()> {
    tree.build("owners: file=10 directory/inside=10 link->file")?;
    if !rustix::process::geteuid().is_root() {
        left_out.push("owners: giving files away needs root".to_owned());
        return Ok(());
    }
    for (name, owner, group) in [("file", 1234, 5678), ("directory", 65534, 100), ("link", 4321, 8765)] {
        lchown(tree.join("owners").join(name), Some(owner), Some(group))?;
    }
    Ok(())
}

fn times(tree: &Tree) -> io::Result<()> {
    tree.build("times: nanoseconds=1 before-1970=1 half-before-1970=1 epoch=1 far-future=1 directory/inside=1 link->epoch")?;
    for (name, seconds, nanoseconds) in [
        ("nanoseconds", 1_700_000_000, 123_456_789),
        ("before-1970", -1_000_000_000, 0),
        ("half-before-1970", -2, 500_000_000),
        ("epoch", 0, 0),
        ("far-future", 7_000_000_000, 999_999_999),
        ("directory", 1_234_567_890, 1),
        ("link", 1_111_111_111, 999_999_999),
    ] {
        set_mtime(&tree.join("times").join(name), seconds, nanoseconds)?;
    }
    Ok(())
}

fn modes(tree: &Tree) -> io::Result<()> {
    tree.build(
        "modes: none=10:0000 write-only=10:0200 executable=10:0755 setuid=10:4755 setgid=10:2755 sticky/:1777 group/:2775 \
         read-only/inside=10 read-only/:0555 closed/inside=10 closed/:0000",
    )
}
