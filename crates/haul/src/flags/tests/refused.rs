//! Command lines that are refused, and the next step that their errors name.

use super::*;

#[test]
fn contradictions_have_a_next_step() {
    for (line, part) in [
        ("sync --delete --files-from l a b", "--include-from"),
        ("sync --delete-excluded --files-from l a b", "--include-from"),
        ("cp -c --size-only a b", "leave one out"),
        ("cp -I -c a b", "leave one out"),
        ("cp -q -v a b", "leave one out"),
        ("cp --inplace --backup-dir d a b", "leave one out"),
        ("cp --min-size 2M --max-size 1M a b", "exchange them"),
        ("cp --newer-than 1d --older-than 2d a b", "exchange them"),
        ("sync a b c", "haul cp"),
        ("cp a", "write SRC and DST"),
        ("cp", "help is -h"),
        ("cp --delete a b", "haul sync"),
        ("sync --info=progress2 a b", "--progress"),
        ("sync - b", "haul cp"),
        ("cp - a b", "standard input"),
        ("cp --files-from - --exclude-from - a b", "one thing only"),
        ("cp --files-from l a b c", "one source"),
        ("check a", "SRC and DST"),
        ("check --manifest m a b", "one address"),
        ("du -s -d 2 a", "leave one out"),
        ("cp --deadline 2026-03-01 a b", "passed"),
        ("cp --chunk-size 400 a b", "400M"),
        ("cp --chunk-size 1K a b", "64K"),
        ("cp --chunk-size 5000000 a b", "'--chunk-size <SIZE>'"),
        ("cp --part-size 5000000 a b", "'--part-size <SIZE>'"),
        ("cp --part-size=5000000 a b", "'--part-size <SIZE>'"),
        ("cp --part-size 1K a b", "--part-size"),
        ("cp --expires notadate a s3://b/a", "'--expires <DATE>'"),
        ("cp --timeout 60 a b", "60s"),
        ("slurm --time 0s a b", "--time 2h"),
        ("slurm --command rm /", "add `-- -r`"),
        ("cp --requeue --deadline none a b", "omit one"),
        ("cp --chmod u+z a b", "none of r, w"),
        ("cp --preserve=colour a b", "there are mode"),
        ("cp -j 0 a b", "1..=4096"),
        ("mkdir -", "./-"),
        ("frobnicate", "frobnicate"),
        ("get h:a b", "`haul cp SRC DST`"),
        ("put a h:b", "`haul cp SRC DST`"),
        ("pull h:a b", "`haul cp SRC DST`"),
        ("push a h:b", "`haul cp SRC DST`"),
        ("mirror a b", "`haul sync --delete SRC/ DST`"),
        ("copy a b", "`haul cp SRC DST`"),
        ("move a b", "`haul mv SRC DST`"),
        ("delete a", "`haul rm`"),
        ("rsync -av a b", "`haul sync`"),
        ("cp s3:/b/x .", "write s3://b/x"),
        ("cp scp://h/x .", "HOST:PATH"),
        ("cp gs://b/x .", "there are file, ssh, sftp, s3, https, http"),
        ("sync a ssh://me:secret@host/", "password"),
    ] {
        let text = refused(line);
        assert!(text.contains(part) && text.starts_with("error: "), "{line}: {text}");
    }
}

#[test]
fn a_stray_value_gets_a_hint_and_not_a_guess() {
    for (line, part) in [
        ("cp -i /home/me/.ssh/id_rsa a host:b", "--identity"),
        ("sync -avi key.pem a host:b", "--identity"),
        ("cp -P 2222 a host:b", "--port"),
        ("cp -p 2222 a host:b", "--port"),
        ("cp -p 50MiB a s3://b/", "--part-size"),
        ("cp -c 16 a b", "-j N"),
        ("cp -rn 16 a b", "-j N"),
        ("cp -o StrictHostKeyChecking=no a host:b", "--ssh-option"),
        ("cp -c aes128-ctr a host:b", "Ciphers="),
        ("cp -rc chacha20-poly1305@openssh.com a host:b", "Ciphers="),
        ("cp -j abc a b", "write -J HOST"),
        ("cp --progress 60 a b", "--progress=60"),
        ("sync --preserve mode,times a b", "--preserve=mode,times"),
    ] {
        let text = refused(line);
        assert!(text.contains(part), "{line}: {text}");
    }
    // A name that is there is what it says; a key with company is to be copied.
    assert!(read_in(&["cp", "-P", "2222", "dst"], &["2222"]).is_ok());
    assert!(read_in(&["cp", "-i", "id_rsa", "dst"], &["id_rsa"]).is_ok());
    assert!(read_in(&["cp", "-i", "a.pem", "b.pem", "dst"], &["a.pem", "b.pem"]).is_ok());
    assert!(read_in(&["cp", "-i", "id_rsa", "src", "dst"], &["id_rsa", "src"]).is_err(), "one too many");
}

#[test]
fn h_is_help_where_it_is_not_sizes() {
    let shown = |line: &str| match read_in(&line.split(' ').collect::<Vec<_>>(), &[]) {
        Ok(Parsed::Print(text)) => text.plain,
        Ok(Parsed::Run(_)) => panic!("{line}: no help"),
        Err(e) => panic!("{line}: {}", e.text.plain),
    };
    for line in ["-h", "cp -h", "sync -ah", "mv -h", "check -h", "rm -rh", "jobs clean -h", "bench files -h", "-h cp", "check a -h b"] {
        assert!(shown(line).contains("--help` lists all options"), "{line}");
        let long = line.split(' ').map(|word| if word.ends_with('h') { "--help" } else { word }).collect::<Vec<_>>().join(" ");
        assert!(shown(&long).lines().count() > shown(line).lines().count(), "{long}");
    }
    // Sizes for people, as in ls, du and rsync.
    for line in ["ls -h", "du -h", "tree -h", "cp -avh a b", "sync -h a b"] {
        assert!(matches!(read_in(&line.split(' ').collect::<Vec<_>>(), &[]), Ok(Parsed::Run(_))), "{line}");
    }
}

#[test]
fn usage_errors_have_their_codes() {
    let code = |line: &str| read_in(&line.split(' ').collect::<Vec<_>>(), &[]).map(|_| 0).unwrap_or_else(|e| e.exit.code());
    assert_eq!(code("cp --nonsense a b"), 1);
    assert_eq!(code("check --nonsense a b"), 2);
    assert_eq!(code("-v check a"), 2);
    assert_eq!(code("--log check cp --nonsense"), 1, "the value of --log is no command");
    assert_eq!(code("cp --help"), 0);
    for line in ["version", "--version", "-V", "--json version"] {
        assert!(
            matches!(read_in(&line.split(' ').collect::<Vec<_>>(), &[]), Ok(Parsed::Print(text)) if text.plain.starts_with("haul 0.")),
            "{line}"
        );
    }
    for line in ["get a b", "put a b", "mirror a b", "copy a b", "move a b", "delete a", "rsync a b", "push a b", "pull a b"] {
        assert!(!refused(line).contains("similar"), "{line}: {}", refused(line));
    }
}
