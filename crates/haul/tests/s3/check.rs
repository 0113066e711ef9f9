//! `check` with a bucket at one end.

use crate::support::World;

#[test]
fn a_tree_and_its_copy() {
    let w = World::new();
    let tree = w.tree("src: a=10 d/b=20 large=9M l->a");
    w.haul("cp -a --part-size 5M src/ @/to/").ends(0);
    for words in ["check src/ @/to/", "check @/to/ src/", "check -c src/ @/to/"] {
        w.haul(words).ends(0);
    }
    // The same size and time, another content: only the content tells.
    let content: Vec<u8> = w.read("src/large").iter().rev().copied().collect();
    let modified = w.path("src/large").metadata().expect("it is there").modified().expect("a time");
    std::fs::write(w.path("src/large"), content).expect("written");
    std::fs::File::options().write(true).open(w.path("src/large")).expect("it opens").set_modified(modified).expect("a time");
    w.haul("check -c src/ @/to/").ends(1).says("large");
    w.tree("src: d/new=1");
    tree.set_mtime("src/a", 1_000_000_000, 0).expect("a time");
    std::fs::write(w.path("src/a"), "ten bytes.").expect("written");
    w.put(b"to/extra", &[], b"x");
    let ended = w.haul("check src/ @/to/").ends(1);
    let ended = ended.says("a").says("d/new").says("extra");
    println!("{ended}");
    w.haul("check s3://no-such-bucket/ src/").ends(23).says("no bucket");
    w.haul("check @/typo/ src/").ends(23).says("nothing below");
}

#[test]
fn attributes_that_are_asked_for_are_compared_beside_the_content() {
    let w = World::new();
    w.tree("src: a=10:0640 b=10");
    w.haul("cp -a src/ @/to/").ends(0);
    w.haul("check -a -c src/ @/to/").ends(0);
    w.tree("src: a:0600");
    for words in ["check -q -a -c src/ @/to/", "check -q -c -p src/ @/to/", "check -q -c -p @/to/ src/"] {
        assert_eq!(w.haul(words).ends(1).out, "a\n", "{words}");
    }
    w.haul("check -c src/ @/to/").ends(0);
}
