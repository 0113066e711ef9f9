//! Logins that may use one directory: `haul agent --root` as the command that a server forces.

use haul_test::compare::What;

use crate::agent::support::{HAUL, World, server};

/// A server that lets nobody run anything but haul for `served`.
fn world(flags: &str) -> World {
    let w = World::on(|scratch| {
        scratch.tree("src: a=5 d/b=300K big=3M served/in: x=7 y/z=9 outside: secret=4");
        scratch.sh("ln -s ../../outside served/in/out; ln -s ../../outside/secret served/in/link; ln -s y served/in/inner");
        let dir = scratch.path("served");
        server(scratch, &format!("ForceCommand {HAUL} agent --root {} {flags}", dir.display()))
    });
    w.sh("cp -a outside before");
    w
}

/// The trees outside are as they were.
fn untouched(w: &World) {
    w.assert_same("before", "outside", What::USUAL);
    assert_eq!(w.read("outside/secret"), w.read("before/secret"));
}

#[test]
fn one_directory_is_served_and_nothing_outside() {
    let w = world("");
    w.haul("cp -a src/ testhost:in/new").ends(0).says("direct TCP to testhost:");
    w.assert_same("src", "served/in/new", What::USUAL);
    w.haul("cp -a testhost:/in/new/ back").ends(0);
    w.assert_same("src", "back", What::USUAL);
    // Links are copied as links; what they point to is not read.
    w.haul("cp -a testhost:in/ links").ends(0);
    assert!(w.path("links/out").is_symlink() && w.path("links/link").is_symlink());
    w.haul("ls testhost:in/inner").ends(0).out_has("z");
    // No address leads out, whether it is read or written.
    for path in ["in/out/", "../outside", "/../outside", "in/../../outside"] {
        let words = format!("cp -a testhost:{path} got");
        let ended = w.haul(&words).run();
        assert!(ended.status.code() != Some(0) && !w.path("got").exists(), "{words}: {ended}");
    }
    for path in ["in/out", "in/out/", "../outside", "/../outside", "in/../../outside", "in/link/x"] {
        for words in ["cp -a src/ testhost:PATH", "ls testhost:PATH/", "mkdir testhost:PATH/new", "rm testhost:PATH/secret"] {
            let ended = w.haul(&words.replace("PATH", path)).run();
            assert!(ended.status.code() != Some(0), "{words} {path}: {ended}");
            untouched(&w);
        }
    }
    let absolute = w.path("outside").display().to_string();
    w.haul(&format!("ls testhost:{absolute}")).run().says("No such file or directory");
    // `-L` would follow links, wherever they lead.
    for words in ["cp -aL testhost:in/ followed", "cp -L testhost:in/link followed"] {
        let ended = w.haul(words).run();
        assert!(ended.status.code() != Some(0), "{words}: {ended}");
        assert!(!w.has("followed/link") && !w.has("followed/out/secret"));
    }
    w.haul("sync -a --delete src/ testhost:in").ends(0);
    w.assert_same("src", "served/in", What::USUAL);
    untouched(&w);
}

#[test]
#[ignore = "full"]
fn files_are_read_to_standard_output_and_their_links_lead_nowhere_outside() {
    let w = world("");
    w.symlink("in/big", "served/top");
    w.symlink("../in/y/z", "served/in/near");
    w.write("served/in/big", vec![7; 300 << 10]);
    for (path, file) in
        [("in/x", "in/x"), ("in/inner/z", "in/y/z"), ("in/near", "in/y/z"), ("top", "in/big"), ("in/big", "in/big"), ("/in/x", "in/x")]
    {
        for words in [format!("cat testhost:{path}"), format!("cp testhost:{path} -")] {
            assert!(w.haul(&words).ends(0).bytes == w.read(format!("served/{file}")), "{words}");
        }
    }
    w.symlink(w.path("outside/secret"), "served/in/absolute");
    w.symlink("link", "served/in/over");
    for path in ["in/link", "in/out/secret", "in/absolute", "in/over", "../outside/secret", "in/../../outside/secret"] {
        for words in [format!("cat testhost:{path}"), format!("cp testhost:{path} -")] {
            let ended = w.haul(&words).run();
            assert!(ended.status.code() != Some(0) && ended.bytes.is_empty(), "{words}: {ended}");
        }
    }
    w.haul("doctor testhost").ends(0).out_has("testhost: works, with haul on the host").out_has("data out").never_says("SFTP");
    w.haul("cat testhost:in").ends(1).says("is a directory");
    w.haul("cp -L testhost:in/x -").ends(0);
    untouched(&w);
}

#[test]
#[ignore = "full"]
fn a_login_for_reading_changes_nothing() {
    let w = world("--read-only");
    w.sh("cp -a served served-before");
    w.haul("cp -a testhost:in/ got").ends(0);
    assert_eq!(w.read("got/y/z"), w.read("served/in/y/z"));
    assert_eq!(w.haul("cat testhost:in/x").ends(0).bytes, w.read("served/in/x"));
    w.haul("check -c testhost:in/ got").ends(0);
    for words in [
        "cp src/ testhost:in",
        "cp src/a testhost:in/x",
        "sync -a --delete src/ testhost:in",
        "rm -r testhost:in/y",
        "mkdir testhost:in/new",
        "chmod 700 testhost:in/x",
        "mv testhost:in/x got",
        "ln testhost:in/x testhost:in/z",
    ] {
        let ended = w.haul(words).run();
        assert!(ended.status.code() != Some(0), "{words}: {ended}");
        w.assert_same("served-before", "served", What::USUAL);
    }
    w.haul("mkdir testhost:in/new").run().says("may only read");
}

/// As docs/security.md writes it: the server forces nothing, the line of the key does.
#[test]
fn a_key_of_authorized_keys_is_for_one_directory_and_for_reading() {
    let w = World::on(|scratch| {
        scratch.tree("src: a=5 served/in: x=7 y/z=9 big=3M outside: secret=4");
        scratch.sh("ln -s ../../outside served/in/out");
        server(scratch, "")
    });
    w.sh("cp -a outside before; cp -a served served-before");
    let dir = w.path("served").display().to_string();
    let key = w.server.read("user_key.pub");
    w.server.write("authorized_keys", format!("command=\"{HAUL} agent --root {dir} --read-only\",restrict {key}"));
    w.haul("cp -a testhost:in/ got").ends(0).says("direct TCP to testhost:");
    w.assert_same("served/in", "got", What::USUAL);
    w.haul("ls testhost:/in/y").ends(0).out_has("z");
    for path in ["../outside", "in/out/", "/../outside"] {
        let ended = w.haul(&format!("cp -a testhost:{path} leak")).run();
        assert!(ended.status.code() != Some(0) && !w.has("leak"), "{path}: {ended}");
    }
    // What haul asks for does not matter: neither its flags nor those of ssh start anything else.
    for words in
        ["cp src/a testhost:in/a", "rm testhost:in/x", "cp --no-agent src/a testhost:in/a", "cp --install-agent src/a testhost:in/a"]
    {
        let ended = w.haul(words).run();
        assert!(ended.status.code() != Some(0), "{words}: {ended}");
        w.assert_same("served-before", "served", What::USUAL);
        untouched(&w);
    }
    w.haul("cp src/a testhost:in/a").run().says("may only read");
    // The same line without the flag is for writing, too.
    w.server.write("authorized_keys", format!("command=\"{HAUL} agent --root {dir}\",restrict {key}"));
    w.haul("cp -a src/ testhost:in/new").ends(0);
    w.assert_same("src", "served/in/new", What::USUAL);
    untouched(&w);
}
