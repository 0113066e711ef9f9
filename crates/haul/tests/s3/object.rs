//! What objects and buckets have beside content: tags, rights, versions, copies out of the archive.

use haul_test::objects::ObjectServer;
use haul_test::objects::scripted::{Action, Answer, When};

use crate::support::World;

#[test]
fn tags_are_shown_set_and_removed() {
    let w = World::new();
    w.put(b"d/a", &[("x-amz-tagging", "old=1&keep=x%20y")], b"1");
    w.put(b"d/e/b", &[], b"2");
    let shown = |words: &str| w.haul(words).ends(0).out;
    let a = format!("s3://{}/d/a", w.bucket);
    assert_eq!(shown("tag @/d/a"), format!("{a}\n  keep=x y\n  old=1\n"));
    assert_eq!(
        w.haul("tag --json --set project=mars --remove old @/d/a").ends(0).events()[0]["tags"],
        serde_json::json!({"keep": "x y", "project": "mars"})
    );
    assert_eq!(shown("tag @/d/a"), format!("{a}\n  keep=x y\n  project=mars\n"));
    // A dry run changes nothing; a directory takes -r.
    w.haul("tag -rn --clear @/d/").ends(0).out_has("d/e/b");
    w.haul("tag --clear @/d/").ends(1).says("-r");
    assert!(shown("tag @/d/a").contains("project=mars"));
    w.haul("tag -r --set all=x @/d/").ends(0);
    for key in ["d/a", "d/e/b"] {
        assert!(shown(&format!("tag @/{key}")).contains("  all=x\n"), "{key}");
    }
    assert_eq!(shown("tag --clear --set only=1 @/d/*"), "");
    assert_eq!(shown("tag @/d/a"), format!("{a}\n  only=1\n"));
    assert!(shown("tag @/d/e/b").contains("all="), "a star stops at slashes");
    w.haul("tag --clear @/d/a").ends(0);
    assert_eq!(shown("tag @/d/a"), format!("{a}\n"));
    w.haul("tag @/none").ends(23);
    w.haul("tag -r --set a=b @/none/").ends(23);
    // This server has no ACLs and shows one all the same: there is nothing to copy of it.
    assert!(shown("acl @/d/a").contains("FULL_CONTROL  user -\n"), "{}", shown("acl @/d/a"));
    w.haul("cp --acl copy @/d/ @/e/").ends(0);
    // Buckets have tags, too.
    w.haul("tag --set of=bucket @").ends(0);
    assert!(shown("tag @").contains("  of=bucket\n"));
    w.haul("tag --clear @").ends(0);
    assert!(!shown("tag @").contains("of="));
}

#[test]
#[ignore = "full"]
fn rights_are_shown_replaced_and_copied() {
    let w = World::of(ObjectServer::moto());
    w.tree("a=10");
    let public = "group AllUsers";
    let shown = |words: &str| w.haul(words).ends(0).out;
    w.haul("cp --acl public-read a @/d/a").ends(0);
    assert!(shown("acl @/d/a").contains("READ") && shown("acl @/d/a").contains(public), "{}", shown("acl @/d/a"));
    // A copy has the default, what is named, or what its source has.
    for (flags, is_public) in [("", false), ("--acl public-read", true), ("--acl copy", true)] {
        w.haul(&format!("cp -I {flags} @/d/a @/copy")).ends(0);
        assert_eq!(shown("acl @/copy").contains(public), is_public, "{flags}");
    }
    w.haul("cp --acl copy a @/b").ends(23).says("the source has no ACL");
    let grants = w.haul("acl --json @/d/a").ends(0).events();
    let of_group = grants[0]["grants"].as_array().expect("a list").iter().find(|grant| grant["kind"] == "group").expect("a group");
    assert_eq!((&of_group["permission"], &of_group["name"]), (&"READ".into(), &"AllUsers".into()), "{grants:?}");
    w.haul("acl -r --clear @/d/").ends(0);
    assert!(!shown("acl @/d/a").contains(public));
    w.haul("acl --set public-read @/d/*").ends(0);
    assert!(shown("acl @/d/a").contains(public));
    w.haul("acl --set public-read @").ends(0);
    assert!(shown("acl @").contains(public));
    w.haul("acl @/none").ends(23);
}

#[test]
#[ignore = "full"]
fn objects_of_the_archive_are_restored() {
    let w = World::of(ObjectServer::moto());
    for key in ["d/a", "d/b"] {
        w.put(key.as_bytes(), &[("x-amz-storage-class", "GLACIER")], b"frozen");
    }
    w.put(b"d/plain", &[], b"warm");
    w.haul("cp @/d/a out").ends(23).says("restore");
    w.haul("restore -n --days 3 @/d/a").ends(0).says("requested");
    w.haul("cp @/d/a out").ends(23);
    let ended = w.haul("restore --days 3 --tier bulk -r @/d/").ends(0);
    assert_eq!(ended.sorted().len(), 2, "the object of another class is no matter: {ended}");
    for key in ["d/a", "d/b"] {
        let restored = w.header(key, "x-amz-restore").unwrap_or_default();
        assert!(restored.contains("expiry-date"), "{key}: {restored}");
    }
    assert_eq!(w.haul("restore --json --days 9 @/d/a").ends(0).events()[0]["state"], "extended");
    w.haul("cp @/d/a out").ends(0);
    w.haul("restore --days 1 @/none").ends(23);
    w.haul("restore @/d/a").ends(1).says("--days");
    // This server has a name of its own for the answer about a bucket without versions.
    assert!(w.haul("bucket-version @").ends(0).out.starts_with("off "));
}

#[test]
fn a_restore_under_way_is_no_failure() {
    let (w, scripted) = World::scripted();
    scripted.rule(When::method("POST").query("restore"), .., Action::Answer(Answer::error(409, "RestoreAlreadyInProgress")));
    assert_eq!(w.haul("restore --json --days 2 @/a").ends(0).events()[0]["state"], "in-progress");
    scripted.clear();
    scripted.rule(When::method("POST").query("restore"), .., Action::Answer(Answer::error(403, "InvalidObjectState")));
    w.haul("restore --days 2 @/a").ends(23).says("archive class");
}

#[test]
fn a_bucket_keeps_versions_and_old_ones_come_back() {
    let w = World::new();
    let state = |words: &str| w.haul(words).ends(0).out.split_whitespace().next().unwrap_or_default().to_string();
    assert_eq!(state("bucket-version @"), "off");
    assert_eq!(state("bucket-version --set enabled @"), "enabled");
    w.put(b"d/k", &[("x-amz-meta-n", "1"), ("x-amz-tagging", "t=1")], b"one");
    w.put(b"d/k", &[("x-amz-meta-n", "2")], b"two");
    w.haul("rm @/d/k").ends(0);
    let versions = w.haul("ls --json --all-versions @/d/").ends(0).events();
    let old = |n: usize| {
        versions.iter().filter(|version| version["deleted"] == false).nth(n).expect("a version")["version_id"]
            .as_str()
            .expect("an id")
            .to_string()
    };
    let (second, first) = (old(0), old(1));
    // The same key, of which the latest version is deleted; then one that has as many bytes.
    for (id, content, n) in [(&first, "one", "1"), (&second, "two", "2"), (&first, "one", "1")] {
        let ended = w.haul(&format!("cp --json --version-id {id} @/d/k @/d/k")).ends(0);
        assert_eq!(w.get("d/k"), content.as_bytes(), "{ended}");
        assert_eq!(w.header("d/k", "x-amz-meta-n").as_deref(), Some(n), "{ended}");
    }
    assert_eq!(w.header("d/k", "x-amz-tagging-count").as_deref(), Some("1"));
    w.haul(&format!("cp --version-id {second} @/d/k @/other")).ends(0);
    w.haul(&format!("cp --version-id {second} @/d/k @/dir/")).ends(0);
    assert_eq!((w.get("other"), w.get("dir/k")), (b"two".to_vec(), b"two".to_vec()));
    w.haul("cp @/d/k @/d/k").ends(1).says("are the same");
    w.haul(&format!("cp --version-id {second} @/none @/x")).ends(23);
    w.haul(&format!("tag --version-id {second} --set of=second @/d/k")).ends(0);
    assert!(
        !w.haul("tag @/d/k").ends(0).out.contains("second")
            && w.haul(&format!("tag --version-id {second} @/d/k")).ends(0).out.contains("of=second")
    );
    assert_eq!(state("bucket-version --set suspended @"), "suspended");
    w.haul("bucket-version @/d/").ends(1).says("no bucket");
}

#[test]
#[ignore = "full"]
fn rights_of_a_bucket_where_objects_have_none() {
    let w = World::of(ObjectServer::versitygw());
    w.put(b"k", &[], b"one");
    w.haul("acl @/k").ends(1).says("no ACLs");
    assert!(w.haul("acl @").ends(0).out.contains("FULL_CONTROL"));
}

#[test]
fn the_directory_of_what_was_moved_stays() {
    let w = World::new();
    w.tree("src: d/a=1 d/b=2 x=3");
    w.haul("cp -a src/ @/to/").ends(0);
    w.haul("mv @/to/d/a @/out/").ends(0).never_says("Kept");
    w.haul("mv @/to/d/* back").ends(0);
    assert_eq!(w.keys(), ["out/a", "to/", "to/d/", "to/x"], "nobody has moved d");
    w.haul("mv @/to/d/ @/gone/").ends(0);
    assert_eq!(w.keys(), ["gone/", "out/a", "to/", "to/x"]);
    let ended = w.haul("cp @/to/x @/to/x").ends(1);
    assert!(ended.err.contains(&format!("s3://{}/to/x: ", w.bucket)), "{ended}");
}

/// As `aws s3 cp` changes the class of objects.
#[test]
fn objects_are_copied_onto_themselves_for_other_options() {
    let (w, scripted) = World::scripted();
    for key in ["p/a", "p/d/b"] {
        w.put(key.as_bytes(), &[("x-amz-meta-old", "1")], b"content");
    }
    let ended = w.haul("cp --json --storage-class REDUCED_REDUNDANCY @/p/ @/p/").ends(0);
    assert_eq!((&ended.finished()["attributes"], ended.number("bytes")), (&2.into(), 0), "{ended}");
    w.haul("cp --metadata new=2 @/p/a @/p/a").ends(0);
    w.haul("cp --metadata new=2 @/p/d/b @/p/d/").ends(0);
    for key in ["p/a", "p/d/b"] {
        assert_eq!(w.header(key, "x-amz-storage-class").as_deref(), Some("REDUCED_REDUNDANCY"), "{key}");
        assert_eq!(
            (w.header(key, "x-amz-meta-old").as_deref(), w.header(key, "x-amz-meta-new").as_deref()),
            (Some("1"), Some("2")),
            "{key}"
        );
        assert_eq!(w.get(key), b"content");
    }
    assert_eq!(w.keys(), ["p/a", "p/d/b"]);
    scripted.clear_seen();
    for words in [
        "cp @/p/ @/p/",
        "mv --metadata x=y @/p/a @/p/a",
        "sync --delete --metadata x=y @/p/ @/p/",
        "cp --remove-source-files --metadata x=y @/p/ @/p/",
    ] {
        w.haul(words).ends(1).says("the same");
    }
    assert_eq!(scripted.count(&When::method("PUT")) + scripted.count(&When::method("DELETE")), 0);
}
