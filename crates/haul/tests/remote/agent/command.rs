//! The small commands on the remote host's files.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::agent::support::World;

#[test]
#[ignore = "full"]
fn they_print_the_same_of_a_host_as_of_this_machine() {
    let w = World::new("t: a=5 d/b=300K d/e/f=3 l->a empty/ p|");
    fs::write(w.path("t").join(std::ffi::OsStr::from_bytes(b"odd\xff\n name")), "x").expect("written");
    for words in [
        "ls PLACE/t",
        "ls -l PLACE/t",
        "ls -R PLACE/t",
        "ls --json -R PLACE/t",
        "du --json PLACE/t",
        "du PLACE/t",
        "du -d 0 PLACE/t/d",
        "cat PLACE/t/a",
        "sum PLACE/t/d",
    ] {
        let here = w.haul(&words.replace("PLACE", "~")).ends(0);
        let there = w.haul(&words.replace("PLACE", "testhost:~")).ends(0);
        let work = w.work.display().to_string();
        let plain = |text: &str| text.replace("testhost:", "").replace(&work, "");
        assert_eq!(plain(&here.out), plain(&there.out), "{words}");
        assert!(!here.bytes.is_empty(), "{words}");
    }
    let (here, there) = (w.haul("tree ~/t").ends(0), w.haul("tree testhost:~/t").ends(0));
    let below = |text: &str| text.lines().skip(1).map(str::to_string).collect::<Vec<_>>();
    assert_eq!(below(&here.out), below(&there.out));
}

#[test]
fn a_user_who_is_not_there_has_no_home() {
    let w = World::new("src: a=5");
    for (words, place) in [
        ("ls", "testhost:~no-such-user"),
        ("cp src/a", "testhost:~no-such-user/x"),
        ("cp --mkpath src/a", "testhost:~no-such-user/x/y"),
        ("mkdir -p", "testhost:~no-such-user/x"),
    ] {
        w.haul(words).arg(place).ends(23).err_has("no user no-such-user on the host");
    }
    assert_eq!(w.names("remote-home"), "");
}

#[test]
fn a_path_without_a_slash_in_front_is_in_the_home_directory() {
    let w = World::new("remote-home: a=5 d/b=6");
    assert_eq!(w.haul("ls testhost:").ends(0).out, "a\nd/\n");
    let tilde = w.haul("ls").arg("testhost:~/d").ends(0);
    assert_eq!(tilde.out, "b\n");
    w.tree("src: x=7");
    w.haul("cp src testhost:d").ends(0);
    assert_eq!(w.read("remote-home/d/src/x"), w.read("src/x"));
}

#[test]
fn what_is_hashed_is_read_on_its_host() {
    let mut w = World::new("t: a=5 empty=0 large=5M d/b=300K d/e/f=3");
    let here = w.haul("sum -o list t").ends(0);
    let asked;
    (w.agent, asked) = crate::agent::proxy::tampering(&w, |_, frame| frame.bytes());
    let there = w.haul("sum testhost:~/t").ends(0);
    assert_eq!(there.out.as_bytes(), w.read("list"), "{here}\n{there}");
    w.haul("sum --format sha256sum testhost:~/t/large").ends(0);
    w.haul("check --manifest list testhost:~/t").ends(0);
    w.haul("check t/ testhost:~/t").ends(0);
    w.haul("check -c testhost:~/t/ t").ends(0);
    w.write("t/d/b", "changed");
    w.haul("check --manifest list testhost:~/t").ends(1);
    let kinds = asked.lock().expect("held").clone();
    let bytes = [crate::agent::proxy::READ, crate::agent::proxy::GET_BUNDLE];
    assert!(!kinds.iter().any(|kind| bytes.contains(kind)), "bytes came here: {kinds:?}");
}

/// By haul there and by the SFTP server: the same.
#[test]
#[ignore = "full"]
fn attributes_links_and_room_are_those_of_the_host() {
    use std::os::unix::fs::MetadataExt;
    let w = World::new("");
    let run = |plain: bool, words: &str| if plain { w.plain(words).run() } else { w.haul(words).run() };
    for plain in [false, true] {
        w.tree("t: d/a=1:0600 d/e/b=1:4700 d/l->a");
        let meta = |name: &str| w.meta(format!("t/d/{name}"));
        run(plain, "chmod -R g+rX,u+w testhost:~/t/d").code(0);
        assert_eq!((meta("a").mode() & 0o7777, meta("e").mode() & 0o070, meta("e/b").mode() & 0o7777), (0o640, 0o050, 0o4750));
        run(plain, "chmod 0604 testhost:~/t/d/l").code(0);
        assert_eq!(meta("a").mode() & 0o777, 0o604, "a link is followed");
        run(plain, "chown -R 7:8 testhost:~/t/d").code(0);
        for name in ["", "a", "e", "e/b", "l"] {
            assert_eq!((meta(name).uid(), meta(name).gid()), (7, 8), "{name}");
        }
        assert_eq!(meta("e/b").mode() & 0o7000, 0, "a new owner gets no setuid program");
        run(plain, "chgrp 9 testhost:~/t/d/e testhost:~/t/nothing").code(23).says("nothing");
        assert_eq!((meta("e").gid(), meta("a").gid()), (9, 8));
        run(plain, "ln testhost:~/t/d/a testhost:~/t/d/e/hard").code(0);
        assert_eq!(meta("a").ino(), meta("e/hard").ino());
        run(plain, "ln testhost:~/t/d/a testhost:~/t/d/e/hard").code(23).says("-f replaces it");
        run(plain, "ln -s ../a testhost:~/t/d/e").code(0);
        run(plain, "ln -sfn testhost:/somewhere/else testhost:~/t/d/l").code(0);
        let leads = |name: &str| std::fs::read_link(w.path(format!("t/d/{name}"))).expect(name).display().to_string();
        assert_eq!((leads("e/a"), leads("l")), ("../a".into(), "/somewhere/else".into()));
        let here = w.haul("df --json ~/t").ends(0);
        let there = run(plain, "df --json testhost:~/t").code(0);
        let figures = |text: &str| {
            let event: serde_json::Value = serde_json::from_str(text).expect("JSON");
            (event["size"].clone(), event["inodes"].clone())
        };
        assert_eq!(figures(&here.out), figures(&there.out));
        w.haul("rm -r ~/t/d").ends(0);
    }
    w.tree("t: d/a=1");
    w.plain("chown nobody testhost:~/t/d/a").ends(1).says("give the number");
    let silent = World::served("t: a=1", "ForceCommand internal-sftp -P statvfs");
    silent.plain("df testhost:~/t").ends(1).says("statvfs@openssh.com");
}
