use haul_core::entry::{Dir, Name};
use proptest::prelude::*;

use super::*;

const ALL: MetaMask = MetaMask(u16::MAX);

fn entry(kind: Kind) -> Entry {
    let mut entry = Entry::bare(Name::new(&Dir::root(), b"a"), kind);
    entry.have = ALL.without(MetaMask::ATIME);
    entry.mtime = Time { secs: 1_704_164_645, nanos: 678_000_000 };
    (entry.mode, entry.uid, entry.gid) = (0o4755, 1000, 100);
    entry.xattrs = Some(Box::default());
    entry
}

fn again(written: &Written) -> FileAttributes {
    read(written.headers.iter().map(|(name, value)| (*name, value.as_str())))
}

#[test]
fn a_file_is_written_in_rclones_keys() {
    let written = write(&entry(Kind::File), ALL, 0);
    let headers: Vec<_> = written.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(headers, ["mode=104755", "mtime=1704164645.678", "uid=1000", "gid=100", "haul-xattrs=axc:"]);
    assert_eq!((written.refused, written.kind_lost), (MetaMask::NONE, false));
    // Nothing that was not asked for, and no setuid bit without its own leave.
    let some = write(&entry(Kind::File), MetaMask::MTIME.with(MetaMask::MODE), 0);
    assert_eq!(some.headers, [("mode", "100755".to_owned()), ("mtime", "1704164645.678".to_owned())]);
    assert_eq!(write(&entry(Kind::File), MetaMask::NONE, 0), Written::default());
}

#[test]
fn every_kind_is_told_with_and_without_its_mode() {
    for kind in [Kind::Link, Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block] {
        for keep in [ALL, MetaMask::NONE, MetaMask::MTIME] {
            let mut before = entry(kind);
            before.rdev = rustix::fs::makedev(259, 1_048_575);
            let mut after = Entry::bare(before.name.clone(), Kind::File);
            after.size = u64::from(kind == Kind::Link);
            again(&write(&before, keep, 0)).apply(&mut after);
            assert_eq!(after.kind, kind, "{keep:?}");
            if matches!(kind, Kind::Char | Kind::Block) {
                assert_eq!(after.rdev, before.rdev);
            }
        }
    }
    let mut odd = entry(Kind::Dir);
    odd.mode = 0o1471;
    assert_eq!(write(&odd, MetaMask::MODE, 0).headers, [("mode", "041471".to_owned())]);
    assert_eq!(again(&write(&odd, MetaMask::MODE, 0)).kind, Some(Kind::Dir));
    assert_eq!(write(&entry(Kind::Link), MetaMask::NONE, 0).headers, [("mode", "120777".to_owned())]);
    assert_eq!(write(&entry(Kind::Dir), MetaMask::MODE, 0).headers, [("mode", "40755".to_owned())]);
}

#[test]
fn what_does_not_fit_is_refused_and_said() {
    let mut big = entry(Kind::File);
    let value = vec![7u8; 1600].into_boxed_slice();
    big.xattrs = Some(Box::new(vec![((*b"system.posix_acl_access").into(), vec![1u8; 44].into()), ((*b"user.big").into(), value.clone())]));
    let written = write(&big, ALL, 0);
    assert_eq!(written.refused, MetaMask::XATTR);
    let kept = again(&written).xattrs.unwrap();
    assert_eq!(kept.0, MetaMask::ACL.with(MetaMask::CONTEXT));
    assert_eq!(kept.1.len(), 1);
    // The user's own metadata leaves no room at all.
    let none = write(&big, ALL, MOST);
    assert!(none.headers.is_empty() && !none.kind_lost);
    assert_eq!(none.refused, MetaMask(0xff));
    assert!(write(&entry(Kind::Link), MetaMask::NONE, MOST).kind_lost);
    assert!(write(&entry(Kind::Fifo), MetaMask::NONE, MOST).kind_lost);
    // Attributes that no reader would believe.
    let mut odd = entry(Kind::File);
    (odd.uid, odd.gid, odd.mtime.secs) = (u32::MAX, u32::MAX, i64::MIN + 1);
    assert_eq!(write(&odd, ALL, 0).refused, MetaMask::MTIME.with(MetaMask::OWNER).with(MetaMask::GROUP));
}

#[test]
fn the_keys_of_other_tools_are_read() {
    let at = |secs, nanos| Some(Time { secs, nanos });
    let s3cmd = read([(
        "S3cmd-Attrs",
        "atime:1584989483/ctime:1584097909/gid:1000/gname:me/md5:f7985d578d7469a176418762e89d020f/mode:33188/mtime:1584097909/uid:1001/uname:me",
    )]);
    assert_eq!((s3cmd.kind, s3cmd.mode, s3cmd.uid, s3cmd.gid), (Some(Kind::File), Some(0o644), Some(1001), Some(1000)));
    assert_eq!((s3cmd.mtime, s3cmd.atime), (at(1_584_097_909, 0), at(1_584_989_483, 0)));
    assert_eq!(s3cmd.md5.unwrap()[..2], [0xf7, 0x98]);

    let mc = read([("Mc-Attrs", "atime:1591920848#5/gid:0/gname:root/mode:16877/mtime:1591920845#999999999/uid:0/uname:root")]);
    assert_eq!(
        (mc.kind, mc.mode, mc.mtime, mc.atime),
        (Some(Kind::Dir), Some(0o755), at(1_591_920_845, 999_999_999), at(1_591_920_848, 5))
    );

    let datasync = read([
        ("file-mtime", "1595002920000000001ns"),
        ("file-permissions", "0100664"),
        ("file-owner", "500"),
        ("file-group", "501"),
        ("user-agent", "aws-datasync"),
    ]);
    assert_eq!((datasync.mtime, datasync.kind, datasync.mode), (at(1_595_002_920, 1), Some(Kind::File), Some(0o664)));
    assert_eq!((datasync.uid, datasync.gid), (Some(500), Some(501)));

    let rclone = read([
        ("mtime", "1354040105.123456789"),
        ("mode", "100664"),
        ("uid", "0"),
        ("gid", "0"),
        ("atime", "2024-01-02T04:04:05.5+01:00"),
        ("btime", "x"),
        ("rdev", "10300000001"),
    ]);
    assert_eq!((rclone.mtime, rclone.atime), (at(1_354_040_105, 123_456_789), at(1_704_164_645, 500_000_000)));
    assert_eq!((rclone.kind, rclone.mode, rclone.rdev), (Some(Kind::File), Some(0o664), Some(rustix::fs::makedev(0x103, 1))));
    assert_eq!(read([("md5chksum", "1B2M2Y8AsgTpgAmY7PhCfg==")]).md5.unwrap()[..2], [0xd4, 0x1d]);

    // s3fs writes modes in decimal.
    for (text, kind, mode) in
        [("33188", Kind::File, 0o644), ("33204", Kind::File, 0o664), ("16877", Kind::Dir, 0o755), ("41471", Kind::Link, 0o777)]
    {
        let kept = read([("mode", text)]);
        assert_eq!((kept.kind, kept.mode), (Some(kind), Some(mode)), "{text}");
    }
    for (text, kind, mode) in [
        ("0644", None, 0o644),
        ("0100644", Some(Kind::File), 0o644),
        ("41777", Some(Kind::Dir), 0o1777),
        ("120777", Some(Kind::Link), 0o777),
    ] {
        let kept = read([("mode", text)]);
        assert_eq!((kept.kind, kept.mode), (kind, Some(mode)), "{text}");
    }
    // Its own keys first, and kind and mode only together.
    let both = read([("s3cmd-attrs", "mode:16877/mtime:1/uid:7"), ("mode", "100600"), ("mtime", "2")]);
    assert_eq!((both.kind, both.mode, both.mtime, both.uid), (Some(Kind::File), Some(0o600), at(2, 0), Some(7)));
    assert!(read([("s3cmd", "x"), ("md5chksum", "1B2M2Y8AsgTpgAmY7PhCfg==")]).is_empty());
    let headers = [("X-Amz-Meta-Mtime", "5"), ("x-amz-meta-", "x"), ("content-type", "a"), ("x-amz-met\u{e9}-x", "1")];
    assert_eq!(read(user_metadata(headers)).mtime, at(5, 0));
}

#[test]
fn what_makes_no_sense_is_not_there() {
    for text in "|x|NaN|inf|1e9|+1|--1|-|.5|1.|1.x|9223372036854775808|1099511627777|0x10|1 2|1,2|\u{661}".split('|') {
        assert_eq!(read([("mtime", text)]), FileAttributes::default(), "{text}");
        assert_eq!(read([("uid", text), ("rdev", "-1"), ("rdev", "11112222333344445")]).uid, None, "{text}");
    }
    for text in ["-1", "4294967295", "4294967296", "+1", ""] {
        assert_eq!(read([("uid", text), ("gid", text), ("file-owner", text)]), FileAttributes::default(), "{text}");
    }
    for text in ["", "-644", "+644", "8", "77777", "200644", "4294967296", "99999999999999999999", "rw-r--r--"] {
        assert_eq!(read([("mode", text), ("file-permissions", text)]), FileAttributes::default(), "{text}");
    }
    for text in ["ns", "1.5ns", "1s", "99999999999999999999ns", "--1ns"] {
        assert_eq!(read([("file-mtime", text)]), FileAttributes::default(), "{text}");
    }
    let all = "mtime mtime: mtime:x mtime:1#1000000000 mtime:1#-1 mtime:1# mtime:1.5#5 mode:x/uid:-1/gid:4294967295/md5:zz ////::::";
    for text in all.split(' ') {
        assert_eq!(read([("mc-attrs", text)]), FileAttributes::default(), "{text}");
    }
    for text in ["", ":", "xa", "z:", "x:!!!!", "x:AQ", "x:AWEB", "a:CXVzZXIuYWJjZAA", "x://///w"] {
        assert_eq!(read([("haul-xattrs", text)]), FileAttributes::default(), "{text}");
    }
    assert_eq!(read([("haul-kind", "symlink"), ("haul-kind", "../x")]), FileAttributes::default());
}

#[test]
fn a_kind_that_does_not_fit_the_content_is_not_believed() {
    for (mode, size, kind) in [
        ("120777", 0, Kind::File),
        ("120777", 4096, Kind::File),
        ("120777", 4095, Kind::Link),
        ("10644", 1, Kind::File),
        ("10644", 0, Kind::Fifo),
        ("40755", 5, Kind::File),
        ("40755", 0, Kind::Dir),
    ] {
        let mut entry = Entry::bare(Name::new(&Dir::root(), b"a"), Kind::File);
        entry.size = size;
        read([("mode", mode)]).apply(&mut entry);
        assert_eq!(entry.kind, kind, "{mode} {size}");
    }
    // What the key calls a directory is one.
    let mut entry = Entry::bare(Name::new(&Dir::root(), b"a"), Kind::Dir);
    read([("mode", "100644")]).apply(&mut entry);
    assert_eq!((entry.kind, entry.mode, entry.have), (Kind::Dir, 0o644, MetaMask::MODE.with(MetaMask::SETID)));
}

fn entries() -> impl Strategy<Value = Entry> {
    let kinds = prop::sample::select(vec![Kind::File, Kind::Dir, Kind::Link, Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block]);
    let times = (-FARTHEST..=FARTHEST, 0..1_000_000_000u32);
    let names = prop_oneof![
        Just(b"system.posix_acl_access".to_vec()),
        Just(b"security.selinux".to_vec()),
        "user\\.[a-z\u{e9}]{1,20}".prop_map(String::into_bytes),
        "trusted\\.[a-z]{5,9}".prop_map(String::into_bytes),
    ];
    let xattrs = proptest::collection::btree_map(names, proptest::collection::vec(any::<u8>(), 0..300), 0..4);
    let ids = (0..u32::MAX, 0..u32::MAX, 0..0x1000u32, 0..0x10_0000u32);
    (kinds, times, 0..0o10000u32, ids, xattrs).prop_map(|(kind, (secs, nanos), mode, (uid, gid, major, minor), xattrs)| {
        let mut entry = entry(kind);
        entry.mtime = Time { secs, nanos };
        (entry.mode, entry.uid, entry.gid) = (if kind == Kind::Link { 0o777 } else { mode }, uid, gid);
        if matches!(kind, Kind::Char | Kind::Block) {
            entry.rdev = rustix::fs::makedev(major, minor);
        }
        entry.size = u64::from(kind == Kind::Link);
        entry.xattrs = Some(Box::new(xattrs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()));
        entry
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(before in entries(), used in 0..MOST) {
        let written = write(&before, ALL, used);
        let total: usize = written.headers.iter().map(|(name, value)| cost(name, value)).sum();
        prop_assert!(total + used <= MOST);
        prop_assert!(written.headers.iter().all(|(_, value)| value.bytes().all(|b| b.is_ascii_graphic())));
        let mut after = Entry::bare(before.name.clone(), Kind::File);
        after.size = before.size;
        again(&written).apply(&mut after);
        let kept = |mask| !written.refused.any(mask);
        if !written.kind_lost && kept(MetaMask::MODE) {
            prop_assert_eq!((after.kind, after.mode, after.rdev), (before.kind, before.mode, before.rdev));
        }
        if kept(MetaMask::MTIME) {
            prop_assert_eq!(after.mtime, before.mtime);
        }
        if kept(MetaMask::OWNER) {
            prop_assert_eq!(after.uid, before.uid);
        }
        if kept(MetaMask::GROUP) {
            prop_assert_eq!(after.gid, before.gid);
        }
        if kept(xattrs::ALL) {
            prop_assert_eq!(&after.xattrs, &before.xattrs);
        }
        // What is said to be there is what is there.
        let expected = before.have.without(written.refused).without(MetaMask::BASIC);
        let known = MetaMask(0xff);
        if !written.refused.any(MetaMask::MODE) {
            prop_assert_eq!(after.have.and(known), expected.and(known));
        }
    }

    #[test]
    fn hostile_metadata_is_borne(name in prop::sample::select(vec!["mtime", "mode", "uid", "rdev", "haul-xattrs", "haul-kind", "s3cmd-attrs", "mc-attrs", "file-mtime", "file-permissions", "md5chksum"]), value in "[-0-9a-z:/#.+=]{0,40}|.{0,40}") {
        let kept = read([(name, value.as_str())]);
        let mut entry = Entry::bare(Name::new(&Dir::root(), b"a"), Kind::File);
        kept.apply(&mut entry);
        prop_assert!(entry.mode <= 0o7777 && entry.mtime.nanos < 1_000_000_000 && entry.kind != Kind::Unknown);
    }
}
