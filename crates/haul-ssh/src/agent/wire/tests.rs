use std::sync::Arc;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::error::{Error, ErrorKind};
use haul_test::memory::Memory;

use super::*;
use crate::agent::server::{Names, Root};

#[test]
fn an_entry_and_an_error_come_back_as_they_went() {
    let dir = Dir::root().child(b"a").child(b"\xff b");
    let mut entry = Entry::bare(Name::new(&dir, b"leaf\n"), Kind::File);
    entry.have = MetaMask(0x1ff);
    (entry.size, entry.stored, entry.ino, entry.version) = (u64::MAX, 512, 7, 9);
    entry.mtime = Time { secs: -5, nanos: 999_999_999 };
    (entry.mode, entry.uid, entry.gid, entry.nlink) = (0o4755, u32::MAX, 3, 2);
    entry.target = Some(b"../x"[..].into());
    entry.xattrs = Some(Box::new(vec![(b"user.a"[..].into(), b"\0\x01"[..].into())]));
    let e = Error::new(ErrorKind::Denied, "open").at(b"a/b").because("no").hint("ask");
    let mut to = Writer::default();
    to.entry(&entry).error(&e).entry(&entry);
    let mut from = Parser(&to.out);
    let root = Root::made_up(Arc::new(Memory::new()));
    let mut names = Names::of(&root);
    let mut same = |from: &mut Parser<'_>| {
        let back = names.entry(from).expect("an entry");
        assert_eq!(back.name.path(), entry.name.path());
        assert_eq!(format!("{:?}", Entry { name: entry.name.clone(), ..back }), format!("{entry:?}"));
    };
    same(&mut from);
    let back = from.error().expect("an error");
    assert_eq!((back.to_string(), back.kind(), back.op()), (e.to_string(), e.kind(), e.op()));
    same(&mut from);
    assert!(from.0.is_empty());
}

#[test]
fn a_count_of_what_is_not_there_is_refused() {
    let to = pack(1_u64 << 40);
    assert!(Parser(&to).count().is_err());
    assert!(Parser(&to).get::<Vec<u32>>().is_err());
    assert!(Parser(&to).bytes().is_err());
    assert!(Parser(&[0xff; 11]).get::<u64>().is_err());
    assert!(Parser(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).get::<u64>().is_err());
}

#[test]
fn words_of_the_other_end_are_no_commands_to_a_terminal() {
    let e = Error::new(ErrorKind::Other, "stat").because("re\u{1b}[2Jason").hint("try\u{1b}]0;x\u{7} this\u{9b}31m");
    let mut to = Writer::default();
    to.error(&e);
    let e = Parser(&to.out).error().expect("an error");
    assert_eq!(e.next_step(), Some("try ]0;x  this 31m"));
    assert_eq!(e.reason(), "re [2Jason");
}
