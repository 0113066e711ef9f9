use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::error::{Error, ErrorKind};
use haul_core::store::Receipt;

use super::*;

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
    let mut to = Writer::new();
    to.entry(&entry).error(&e).entry(&entry);
    let mut from = Parser(&to.out);
    let mut dirs = Vec::new();
    let mut known = |path: &[u8]| {
        assert_eq!(path, b"a/\xff b");
        Ok(dir.clone())
    };
    for round in 0..2 {
        let there = from.dir(&mut dirs, &mut known).expect("a directory");
        let leaf = from.bytes().expect("a leaf");
        let back = from.attributes(Name::new(&there, leaf)).expect("attributes");
        assert_eq!(format!("{back:?}"), format!("{entry:?}"));
        if round == 0 {
            let back = from.error().expect("an error");
            assert_eq!((back.to_string(), back.kind(), back.op()), (e.to_string(), e.kind(), e.op()));
        }
    }
    assert!(from.0.is_empty());
}

#[test]
fn numbers_keep_their_value_and_too_large_ones_are_refused() {
    for n in [0, 1, 0x7f, 0x80, u64::from(u32::MAX), u64::MAX] {
        let mut to = Writer::new();
        to.number(n).signed(n.cast_signed());
        let mut from = Parser(&to.out);
        assert_eq!((from.number().expect("a number"), from.signed().expect("a number")), (n, n.cast_signed()));
    }
    assert!(Parser(&[0xff; 11]).number().is_err());
    assert!(Parser(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number().is_err());
}

#[test]
fn receipts_come_back_in_any_order() {
    let receipts: Vec<Receipt> = [5, 0, 1, 2, 9].map(|index| Receipt { index, tag: Box::default(), hash: None }).into();
    let mut to = Writer::new();
    to.receipts(&receipts);
    assert_eq!(Parser(&to.out).receipts().expect("receipts"), receipts);
}

#[test]
fn a_count_of_what_is_not_there_is_refused() {
    let mut to = Writer::new();
    to.number(1 << 40);
    assert!(Parser(&to.out).count().is_err());
    assert!(Parser(&to.out).receipts().is_err());
    assert!(Parser(&to.out).bytes().is_err());
}

#[test]
fn words_of_the_other_end_are_no_commands_to_a_terminal() {
    let e = Error::new(ErrorKind::Other, "stat").because("re\u{1b}[2Jason").hint("try\u{1b}]0;x\u{7} this\u{9b}31m");
    let mut to = Writer::new();
    to.error(&e);
    let e = Parser(&to.out).error().expect("an error");
    assert_eq!(e.next_step(), Some("try ]0;x  this 31m"));
    assert_eq!(e.reason(), "re [2Jason");
}

#[test]
fn a_count_of_receipts_that_do_not_come_takes_no_memory() {
    let mut to = Writer::new();
    // As many as the frame has bytes, of which the third is not sound.
    to.number(4 << 20);
    to.out.extend_from_slice(&[0, 0]);
    to.out.resize(to.out.len() + (4 << 20), 0xff);
    let mut receipts = Vec::new();
    assert!(Parser(&to.out).receipts_into(&mut receipts).is_err());
    assert!(receipts.len() == 2 && receipts.capacity() < 100, "{}", receipts.capacity());
}
