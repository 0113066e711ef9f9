//! What a server says is not taken for done: names, sizes and listings are looked at.

use super::*;

/// Whether a session has root's rights or nobody's, the server can write here.
fn open_to_all(w: &World) {
    w.sh("chmod 777 . && chmod -R a+rX .. .");
}

fn pure_ftpd() -> World {
    let w = world(FtpServer::pure_ftpd());
    open_to_all(&w);
    w
}

/// A server whose sessions have nobody's rights.
fn vsftpd_of_nobody() -> World {
    let w = vsftpd("guest_enable=YES\nguest_username=daemon\nlocal_root=/\nvirtual_use_local_privs=YES");
    open_to_all(&w);
    w
}

/// pyftpdlib without these commands.
fn without(words: &[&str]) -> World {
    let lines: Vec<String> = words.iter().map(|word| format!("del handler.proto_cmds[{word:?}]")).collect();
    world(FtpServer::pyftpdlib(&lines.join("\n")))
}

#[test]
fn a_name_that_the_server_changes_is_refused_and_its_source_stays() {
    for command in ["cp", "cp --verify", "sync", "mv", "cp --remove-source-files"] {
        let w = pure_ftpd();
        w.write("in/a\tb", "one");
        w.write("in/a_b", "two");
        w.write("in/c ", "three");
        w.write("in/d\te/f", "four");
        w.write("in/ g", "five");
        let text = w.ends(23, &format!("{command} in/ @/there"));
        assert!(text.contains("does not keep this name") && text.contains("a\\tb"), "{command}: {text}");
        assert_eq!(w.entries("there"), [" g", "a_b"], "{command}");
        assert_eq!(w.read("there/a_b"), b"two", "{command}");
        assert!(w.has("in/a\tb") && w.has("in/c ") && w.has("in/d\te/f"), "{command}");
        w.ends(1, "check in/ @/there");
        // Nor is another file taken for one of that name, changed, renamed or removed.
        w.write("there/a\tb", "other");
        w.sh("chmod a+rw there/*");
        let text = w.fails("rm @/there/a?b");
        assert!(w.has("there/a_b") || !text.contains("a_b"), "{text}");
        assert!(w.has("there/a\tb"), "{text}");
    }
}

#[test]
#[ignore = "full"]
fn unusual_names_are_kept_by_most_servers() {
    for w in servers() {
        for name in ["a\tb", "c ", " d", "é", "e\u{301}", "f.", "g\\h", "i:j", "\u{7f}"] {
            w.write(format!("in/sub{name}/{name}"), name);
        }
        let text = w.ends(0, "mv in/ @/there");
        assert_eq!(w.read("there/suba\tb/a\tb"), b"a\tb", "{text}");
        w.ends(0, "cp @/there/ back");
        w.same("there", "back");
        w.assert_clean("");
        assert!(w.entries("").iter().all(|name| !name.starts_with(".haul-")), "{:?}", w.entries(""));
    }
}

#[test]
fn a_directory_that_cannot_be_listed_is_an_error() {
    for w in [vsftpd_of_nobody(), pure_ftpd()] {
        for mode in ["711", "700"] {
            w.sh("rm -rf tree mirror; mkdir -p tree/shut tree/open; echo 1 > tree/shut/x; echo 2 > tree/open/y; cp -a tree mirror; chmod 755 tree");
            w.sh(&format!("chmod {mode} tree/shut"));
            w.write("mirror/extra", "x");
            let text = w.ends(23, "sync --delete @/tree/ mirror");
            assert!(w.has("mirror/shut/x") && w.has("mirror/extra"), "{mode}: {text}");
            assert!(text.contains("shut"), "{mode}: {text}");
            w.ends(23, "check @/tree/ mirror");
        }
        // One that is gone is no error of that kind.
        let text = w.fails("ls @/tree/gone/");
        assert!(text.contains("no such file or directory"), "{text}");
    }
}

#[test]
fn a_small_file_that_the_server_cuts_off_is_no_success() {
    // It takes all for text: CR LF becomes LF.
    let ascii = "real = handler.dtp_handler.enable_receiving\nhandler.dtp_handler.enable_receiving = lambda self, type, cmd: real(self, 'a', cmd)\n";
    for words in [&[][..], &["MLSD", "MLST"], &["MLSD", "MLST", "SIZE", "MDTM"]] {
        let lines: String = words.iter().map(|word| format!("del handler.proto_cmds[{word:?}]\n")).collect();
        let w = world(FtpServer::pyftpdlib(&format!("{ascii}{lines}")));
        for n in 0..40 {
            w.write(format!("in/n{n}"), format!("line {n}\n"));
        }
        w.write("in/text", "a\r\nb\r\n");
        w.write("there/text", "old");
        let text = w.ends(23, "cp --retries 1 in/ @/there");
        assert!(text.contains("in/text") || text.contains("text"), "{words:?}: {text}");
        assert!(text.contains("the server has 4 bytes of 6"), "{words:?}: {text}");
        assert_eq!(w.entries("there").len(), 41, "{words:?}: {text}");
        if !words.contains(&"SIZE") {
            assert_eq!(w.read("there/text"), b"old", "{words:?}: {text}");
            w.assert_clean("");
        }
    }
}

#[test]
fn a_small_download_that_ends_early_is_made_again() {
    let content = bytes(3, 1000);
    let cut = AtomicBool::new(false);
    let (w, server) = rogue(&content, move |line| match line.starts_with("RETR") && !cut.swap(true, Ordering::Relaxed) {
        true => Answer::Cut(500, "226 done"),
        false => Answer::Honest,
    });
    w.ends(0, "cp @/file copy");
    assert!(w.read("copy") == content, "{:#?}", server.heard());
}

#[test]
fn an_upload_goes_on_at_a_server_that_only_lists() {
    let w = without(&["MLSD", "MLST", "SIZE", "MDTM"]);
    assert!(w.haul("cp -j 1 --chunk-size 1M src/big @/copy").killed_at(8).run().was_killed());
    until("a staging file", || !w.staging("").is_empty());
    let text = w.ends(0, "cp -j 1 --chunk-size 1M src/big @/copy");
    assert!(w.read("copy") == w.read("src/big") && text.contains("Resumed"), "{text}");
    w.assert_clean("");
}

#[test]
fn times_of_a_listing_are_used_where_there_are_no_others() {
    let w = without(&["MLSD", "MLST", "MDTM", "MFMT"]);
    let text = w.ends(0, "ls -l @/src/d/");
    assert!(text.contains("2017-07-14") && !text.contains("1970"), "{text}");
    w.ends(0, "cp @/src/ back");
    w.same("src", "back");
    assert!(w.ends(0, "cp @/src/ back").contains("nothing to transfer"));
    assert!(w.ends(0, "cp @/src/d/a.txt one").contains("1 file") && w.time("one") / 86_400 == 1_500_000_000 / 86_400);
    // Of what is at the destination they say which is younger.
    w.ends(0, "cp src/ @/there");
    assert!(w.ends(0, "cp src/ @/there").contains("nothing to transfer"));
}

#[test]
fn the_mode_of_a_single_file_is_kept() {
    let w = vsftpd("");
    w.sh("chmod 600 src/d/a.txt");
    for words in ["cp -p @/src/d/a.txt got", "cp -p -L @/src/d/a.txt got2"] {
        w.ends(0, words);
        assert_eq!(w.meta(words.split(' ').next_back().expect("a word")).mode() & 0o777, 0o600, "{words}");
    }
    w.sh("ln -s a.txt src/d/link");
    w.ends(0, "cp -p @/src/d/link got3");
    assert!(!w.path("got3").is_symlink() && w.read("got3") == b"hello\n");
}

#[test]
fn modes_are_changed() {
    for w in servers() {
        w.ends(0, "chmod 640 @/src/d/a.txt");
        assert_eq!(w.meta("src/d/a.txt").mode() & 0o777, 0o640);
        w.ends(0, "chmod -R go= @/src/d");
        assert_eq!((w.meta("src/d/sub/-deep").mode() & 0o777, w.meta("src/d").mode() & 0o777), (0o600, 0o700));
        let text = w.fails("chmod u+s @/src/d/a.txt");
        assert!(text.contains("setid"), "{text}");
    }
}

#[test]
fn one_line_that_is_unknown_does_not_hide_the_others() {
    let content = bytes(4, 100);
    let listed = "-rw-r--r-- 1 0 0 100 Jan 02  2020 file\r\nls: cannot access x\r\n+i1.2,m1577934245,r,s3,\tother\r\n";
    let (w, _) = rogue(&content, move |line| match line {
        "LIST -a" => Answer::Send(listed.into()),
        "RETR /other" => Answer::Send(b"abc".to_vec()),
        "SIZE /other" => Answer::Say("213 3\r\n".into()),
        "MDTM /other" => Answer::Say("213 20200102030405\r\n".into()),
        _ => Answer::Honest,
    });
    w.write("got/extra", "x");
    let text = w.ends(23, "sync --delete @/ got");
    assert!(text.contains("unknown format: ls: cannot access x") && w.has("got/extra"), "{text}");
    assert_eq!((w.read("got/other"), w.read("got/file") == content), (b"abc".to_vec(), true), "{text}");
}

#[test]
fn a_port_that_is_not_reached_is_asked_for_in_the_older_way() {
    let content = bytes(2, 70_000);
    for said in ["229 none\r\n", "229 ok (|||1|)\r\n", "200 what\r\n"] {
        let (w, server) = rogue(&content, move |line| match line {
            "EPSV" => Answer::Say(said.into()),
            "LIST -a" => Answer::Send(b"-rw-r--r-- 1 0 0 70000 Jan 02  2020 file\r\n".to_vec()),
            _ => Answer::Honest,
        });
        w.ends(0, "cp @/ got");
        assert!(w.read("got/file") == content, "{said}: {:#?}", server.heard());
    }
}

#[test]
#[ignore = "full"]
fn a_symlink_is_skipped_and_deletes_go_on() {
    let w = vsftpd("");
    w.sh("ln -s big src/link; mkdir there; touch there/extra");
    let text = w.ends(0, "sync --delete src/ @/there");
    assert!(!w.has("there/extra") && !w.has("there/link") && text.contains("1 symlink"), "{text}");
    // Not where nothing else was asked for.
    assert!(w.ends(23, "cp -P src/link @/there/").contains("symlinks"));
    // A move leaves it where it is.
    assert!(w.ends(0, "mv src/ @/moved").contains("1 symlink at the source"));
    assert!(w.path("src/link").is_symlink() && !w.has("src/big"));
}

#[test]
fn a_move_within_one_server_renames() {
    let w = vsftpd("");
    w.sh("cp -a src kept");
    w.ends(0, "mv @/src/ @/moved");
    w.same("kept", "moved");
    let log = w.server.log();
    assert!(w.entries("src").is_empty() && !log.contains("\"RETR ") && !log.contains("\"STOR "), "{log}");
    w.ends(0, "mkdir @/dir");
    w.ends(0, "mv @/moved/big @/moved/.hid @/dir/");
    assert_eq!(w.entries("dir"), [".hid", "big"]);
    assert!(!w.server.log().contains("\"RETR "), "{}", w.server.log());
    // What is there is not replaced by a directory.
    w.sh("mkdir -p dir/d && echo mine > dir/d/mine");
    w.ends(0, "mv @/moved/d @/dir/");
    assert!(w.has("dir/d/mine") && w.has("dir/d/n7") && !w.has("moved/d"));
}

#[test]
fn a_full_disk_here_is_named() {
    let volume = Volume::tmpfs(4 << 20).expect("a volume of 4 MiB");
    let w = vsftpd("");
    for source in ["src/big", "src/"] {
        let text = w.ends(11, &format!("cp @/{source} {}/", volume.path().display()));
        assert!(text.contains("free space") && !text.contains("server"), "{text}");
    }
    // A server without room for what it has to send is another matter.
    let (w, _) = rogue(b"abc", |line| match line.starts_with("RETR") {
        true => Answer::Say("452 No space left on device\r\n".into()),
        false => Answer::Honest,
    });
    let text = w.ends(23, "cp --retries 0 @/file got");
    assert!(text.contains("452") && !text.contains("free space"), "{text}");
}

/// A server that does not replace files, and one that loses them.
#[test]
fn room_is_made_for_a_file_only_if_it_is_there_and_without_harm_to_other_names() {
    let refuses = "def keep(self, path, rename=handler.ftp_RNTO):\n    import os\n    \
        return self.respond('550 File exists.') if os.path.lexists(self.fs.ftp2fs(path)) else rename(self, path)\n\
        handler.ftp_RNTO = keep";
    let w = world(FtpServer::pyftpdlib(refuses));
    open_to_all(&w);
    for n in 0..20 {
        w.write(format!("in/{n}"), format!("new {n}"));
        w.write(format!("there/{n}"), format!("old {n}"));
    }
    w.write("there/3.haul-old", "another's");
    w.ends(0, "cp -I in/ @/there");
    w.ends(0, "cp @/there/ back");
    assert_eq!(w.read("there/3.haul-old"), b"another's");
    w.sh("rm there/3.haul-old");
    w.same("in", "there");

    let loses = "def lost(self, path, rename=handler.ftp_RNFR):\n    import os\n    \
        '.haul-' in path and os.remove(self.fs.ftp2fs(path))\n    return rename(self, path)\n\
        handler.ftp_RNFR = lost";
    let w = world(FtpServer::pyftpdlib(loses));
    open_to_all(&w);
    for n in 0..20 {
        w.write(format!("in/{n}"), format!("new {n}"));
        w.write(format!("there/{n}"), format!("old {n}"));
    }
    w.ends(23, "cp -I --retries 1 in/ @/there");
    assert!((0..20).all(|n| w.read(format!("there/{n}")) == format!("old {n}").as_bytes()));
    assert_eq!(w.entries("there").len(), 20);
}

#[test]
fn an_empty_file_takes_the_place_of_another_and_is_verified() {
    for w in servers() {
        w.sh("mkdir -p in there && : > in/e && echo old > there/e && touch -d 2020-01-01 in/e && chmod a+rw there there/e");
        w.ends(0, "cp --verify in/ @/there");
        assert_eq!(w.read("there/e"), b"");
        w.sh("echo old > there/e");
        w.ends(0, "mv in/ @/there");
        assert!(w.read("there/e").is_empty() && !w.has("in/e"));
    }
}
