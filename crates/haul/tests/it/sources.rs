//! Sources whose size says nothing: files that the kernel makes up while they are read.

use crate::support::World;

#[test]
fn files_of_the_kernel_are_copied_to_their_end() {
    let world = World::new("");
    for (path, name) in [("/proc/version", "version"), ("/sys/kernel/mm/transparent_hugepage/enabled", "enabled")] {
        for flags in ["", " --verify", " -c"] {
            world.haul(&format!("cp{flags} {path} {name}")).succeeds();
            assert_eq!(world.read(name), std::fs::read(path).expect("read"), "{path}{flags}");
        }
        let printed = world.haul(&format!("cat {path}")).succeeds();
        assert_eq!(printed.out.as_bytes(), std::fs::read(path).expect("read"), "cat {path}");
    }
    // Larger than what is moved in a bundle, and without end.
    world.haul("cp /proc/kallsyms symbols").succeeds();
    assert_eq!(world.read("symbols").len(), std::fs::read("/proc/kallsyms").expect("read").len());
    world.haul("cp /proc/self/pagemap endless").ends(23).err_has("haul cp - DST");
    assert!(!world.has("endless"));
}

#[test]
fn trees_of_the_kernel_are_copied() {
    let world = World::new("");
    world.haul("cp -r /proc/sys/kernel/random/ random").ends(0);
    assert_eq!(world.read("random/poolsize"), std::fs::read("/proc/sys/kernel/random/poolsize").expect("read"));
}

/// Standard input cannot be read again, so nothing is said of resuming.
#[test]
fn a_stopped_copy_of_standard_input_does_not_claim_to_resume() {
    let world = World::new("");
    let mut run = world.haul("cp --timeout 1s - zz").piped();
    let _open = run.input();
    run.wait().code(30).never_says("resume").never_says("is kept");
}
