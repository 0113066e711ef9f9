//! The small commands on the remote host's files.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::support::World;

#[test]
fn they_say_of_the_far_side_what_they_say_of_here() {
    let w = World::new("");
    w.tree("t: a=5 d/b=300K d/e/f=3 l->a empty/ p|");
    fs::write(w.join("t").join(std::ffi::OsStr::from_bytes(b"odd\xff\n name")), "x").expect("written");
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
        let here = w.haul(&words.replace("PLACE", "~")).run().code(0);
        let there = w.haul(&words.replace("PLACE", "testhost:~")).run().code(0);
        let place = w.join("").display().to_string();
        let plain = |text: &str| text.replace("testhost:", "").replace(place.trim_end_matches('/'), "");
        assert_eq!(plain(&here.out), plain(&there.out), "{words}");
        assert!(!here.bytes.is_empty(), "{words}");
    }
    let (here, there) = (w.haul("tree ~/t").run().code(0), w.haul("tree testhost:~/t").run().code(0));
    let below = |text: &str| text.lines().skip(1).map(str::to_string).collect::<Vec<_>>();
    assert_eq!(below(&here.out), below(&there.out));
}

#[test]
fn cat_gives_every_byte() {
    let w = World::new("");
    w.tree("t: big=9M");
    let told = w.haul("cat testhost:~/t/big").run().code(0);
    assert!(told.bytes == w.content("t/big"), "{} bytes", told.bytes.len());
}

#[test]
fn directories_are_made_and_removed() {
    let w = World::new("");
    w.tree("t: d/a=5 d/e/f=6 keep=1");
    w.haul("mkdir -p testhost:~/t/new/deeper").run().code(0);
    assert!(w.join("t/new/deeper").is_dir());
    w.haul("mkdir testhost:~/t/other/deeper").run().code(23);
    w.haul("rm testhost:~/t/d").run().code(1);
    assert!(w.join("t/d/e/f").exists());
    w.haul("rm -r testhost:~/t/d").run().code(0);
    assert!(!w.join("t/d").exists() && w.join("t/keep").exists());
    w.haul("rm testhost:~/t/absent").run().code(23).says("no such file");
    w.haul("rm -r testhost:").run().code(1);
    w.haul("rm -r testhost:~").arguments(&["--ssh-option", "ConnectTimeout=5"]);
}

#[test]
fn a_path_without_a_slash_in_front_is_in_the_home_directory() {
    let w = World::new("");
    w.tree("far-home: a=5 d/b=6");
    assert_eq!(w.haul("ls testhost:").run().code(0).out, "a\nd/\n");
    let tilde = w.plain("ls").arguments(&["--agent", crate::support::HAUL, "testhost:~/d"]).run().code(0);
    assert_eq!(tilde.out, "b\n");
    w.tree("src: x=7");
    w.haul("cp src testhost:d").run().code(0);
    assert_eq!(w.content("far-home/d/src/x"), w.content("src/x"));
}

#[test]
fn what_is_not_there_is_said() {
    let w = World::new("");
    w.tree("src: a=5 file=1");
    w.haul("cp testhost:~/absent dst").run().code(23).says("absent").says("no such file");
    w.haul("cp src testhost:~/absent/deeper/").run().code(1).says("--mkpath");
    w.haul("cp src testhost:~/src/file/").run().code(1);
    assert!(!w.join("dst").exists() && !w.join("absent").exists());
}

#[test]
fn what_is_hashed_is_read_where_it_lies() {
    let mut w = World::new("");
    w.tree("t: a=5 empty=0 large=5M d/b=300K d/e/f=3");
    let here = w.haul("sum -o list t").run().code(0);
    let asked;
    (w.agent, asked) = crate::proxy::tampering(&w, |_, frame| frame.bytes());
    let there = w.haul("sum testhost:~/t").run().code(0);
    assert_eq!(there.out.as_bytes(), w.content("list"), "{here}\n{there}");
    w.haul("sum --format sha256sum testhost:~/t/large").run().code(0);
    w.haul("check --manifest list testhost:~/t").run().code(0);
    w.haul("check t/ testhost:~/t").run().code(0);
    w.haul("check -c testhost:~/t/ t").run().code(0);
    std::fs::write(w.join("t/d/b"), "changed").expect("written");
    w.haul("check --manifest list testhost:~/t").run().code(1);
    let kinds = asked.lock().expect("held").clone();
    let bytes = [crate::proxy::READ, crate::proxy::GET_BUNDLE];
    assert!(!kinds.iter().any(|kind| bytes.contains(kind)), "bytes came here: {kinds:?}");
}

/// By haul there and by the SFTP server: the same.
#[test]
fn attributes_links_and_room_are_those_of_the_host() {
    use std::os::unix::fs::MetadataExt;
    let w = World::new("");
    let run = |plain: bool, words: &str| if plain { w.plain(words).run() } else { w.haul(words).run() };
    for plain in [false, true] {
        w.tree("t: d/a=1:0600 d/e/b=1:4700 d/l->a");
        let meta = |name: &str| w.join(format!("t/d/{name}")).symlink_metadata().expect(name);
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
        let leads = |name: &str| std::fs::read_link(w.join(format!("t/d/{name}"))).expect(name).display().to_string();
        assert_eq!((leads("e/a"), leads("l")), ("../a".into(), "/somewhere/else".into()));
        let here = w.haul("df --json ~/t").run().code(0);
        let there = run(plain, "df --json testhost:~/t").code(0);
        let figures = |text: &str| {
            let event: serde_json::Value = serde_json::from_str(text).expect("JSON");
            (event["size"].clone(), event["inodes"].clone())
        };
        assert_eq!(figures(&here.out), figures(&there.out));
        w.haul("rm -r ~/t/d").run().code(0);
    }
    w.tree("t: d/a=1");
    w.plain("chown nobody testhost:~/t/d/a").run().code(1).says("give the number");
    let silent = World::new("ForceCommand internal-sftp -P statvfs");
    silent.tree("t: a=1");
    silent.plain("df testhost:~/t").run().code(1).says("statvfs@openssh.com");
}
