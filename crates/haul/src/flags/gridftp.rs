//! The options of `globus-url-copy`, where an address of the command line is one of a GridFTP or FTP server: `haul cp -vb -p 8 gsiftp://h/f .`

use std::ffi::OsString;

const SCHEMES: [&str; 3] = ["gsiftp://", "sshftp://", "ftp://"];

/// What becomes of an option.
enum Becomes {
    /// Another one, without a value, or with the one that follows.
    Word(&'static str),
    Valued(&'static str),
    /// haul does so in any case.
    Dropped,
    DroppedWithValue,
}

fn meaning(word: &str, value: Option<&str>) -> Option<Becomes> {
    use Becomes::{Dropped, DroppedWithValue, Valued, Word};
    let is_number = value.is_some_and(|value| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()));
    let is_size = value.is_some_and(|value| value.starts_with(|first: char| first.is_ascii_digit()));
    Some(match word {
        // Without a number it preserves permissions.
        "-p" | "-parallel" if is_number => Valued("--streams"),
        "-cc" | "-concurrency" if is_number => Valued("-j"),
        "-tcp-bs" | "-tcp-buffer-size" if is_size => Valued("--tcp-bs"),
        "-bs" | "-block-size" if is_size => DroppedWithValue,
        "-vb" | "-verbose-perf" => Word("--progress"),
        "-nodcau" | "-no-data-channel-authentication" => Word("--no-dcau"),
        // Globus's libraries encrypt where integrity alone is asked for, too.
        "-dcpriv" | "-data-channel-private" | "-dcsafe" | "-data-channel-safe" => Word("--dcpriv"),
        "-cd" | "-create-dest" | "-fast" | "-pp" | "-pipeline" | "-rst" | "-restart" => Dropped,
        _ => return None,
    })
}

/// The same command line with haul's own options. Without such an address it is left as it is.
pub fn translated(argv: &[OsString]) -> Vec<OsString> {
    let is_address = |word: &OsString| word.to_str().is_some_and(|word| SCHEMES.iter().any(|scheme| word.starts_with(scheme)));
    if !argv.iter().any(is_address) {
        return argv.to_vec();
    }
    let mut words = argv.iter().peekable();
    let mut all = Vec::with_capacity(argv.len());
    while let Some(word) = words.next() {
        if word == "--" {
            all.push(word.clone());
            all.extend(words.by_ref().cloned());
            break;
        }
        let value = words.peek().and_then(|value| value.to_str());
        match word.to_str().and_then(|word| meaning(word, value)) {
            None => all.push(word.clone()),
            Some(Becomes::Word(own)) => all.push(own.into()),
            Some(Becomes::Dropped) => {}
            Some(Becomes::Valued(own)) => all.extend([own.into(), words.next().cloned().unwrap_or_default()]),
            Some(Becomes::DroppedWithValue) => drop(words.next()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_globus_url_copy_are_read() {
        for (line, expected) in [
            ("cp -vb -p 8 gsiftp://h//f file:///f", "cp --progress --streams 8 gsiftp://h//f file:///f"),
            ("cp -cc 4 -fast -pp -tcp-bs 4M -bs 1M ftp://h/f f", "cp -j 4 --tcp-bs 4M ftp://h/f f"),
            ("cp -nodcau -cd -r f sshftp://h/d/", "cp --no-dcau -r f sshftp://h/d/"),
            ("cp -dcsafe gsiftp://h/f f", "cp --dcpriv gsiftp://h/f f"),
            // A path of that name, and an option without a number.
            ("cp -p ftp://h/f f", "cp -p ftp://h/f f"),
            ("cp -p 8x ftp://h/f f", "cp -p 8x ftp://h/f f"),
            ("cp -- -pp ftp://h/f", "cp -- -pp ftp://h/f"),
            // Elsewhere they mean what they mean.
            ("cp -p 8 d", "cp -p 8 d"),
            ("cp -vb -p 8 s3://b/f f", "cp -vb -p 8 s3://b/f f"),
        ] {
            let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let words = translated(&argv);
            assert_eq!(words.join(" ".as_ref()).to_string_lossy(), expected, "{line}");
        }
    }
}
