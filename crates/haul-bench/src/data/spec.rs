//! The words that describe a data set.
//!
//! ```text
//! SPEC   = ITEM { ("," | "+") ITEM }
//! ITEM   = COUNT "x" SIZE | LAW [ ":" NAME "=" VALUE { "," NAME "=" VALUE } ]
//! LAW    = "lognormal" (median sigma count max) | "uniform" (min max count)
//! ```

use super::law::{Law, MOST_SIZE};
use super::profile::Profile;
use super::skeleton::{Row, Skeleton};

/// The most files of a set: at ten thousand a second it takes three hours to make them.
pub const MOST_FILES: u64 = 100_000_000;

#[derive(Clone, Debug, Default)]
pub struct Spec {
    pub text: String,
    pub laws: Vec<Law>,
    /// Links besides the files and those that the options add.
    pub symlinks: u64,
    pub hard_links: u64,
    /// Directories, where the shape is that of a real tree.
    pub rows: Option<Vec<Row>>,
    /// Lengths of names, of files and of directories: (bytes, how many), where they are those of a real tree.
    pub lengths: Option<[Vec<(u8, u64)>; 2]>,
    /// Sizes are dealt out in a drawn order; else as the laws stand.
    pub shuffled: bool,
}

/// What reads `10MiB`: bytes, or why not.
pub type SizeParser<'a> = &'a dyn Fn(&str) -> Result<u64, String>;

const POSSIBLE: &str = "write COUNTxSIZE like 1000x10MiB, lognormal:median=64KiB,sigma=2,count=10000, uniform:min=4KiB,max=1MiB,count=1000";

impl Spec {
    /// Errors name the mistake and the possible forms.
    pub fn parse(text: &str, size: SizeParser<'_>) -> Result<Spec, String> {
        let mut laws = Vec::new();
        let mut words = text.split([',', '+']).map(str::trim).peekable();
        while let Some(word) = words.next() {
            let (head, first) = word.split_once(':').map_or((word, None), |(head, first)| (head, Some(first)));
            if !matches!(head, "lognormal" | "uniform") {
                laws.push(fixed(word, size)?);
                continue;
            }
            // Further parameters, up to the next item.
            let mut parameters: Vec<&str> = first.filter(|first| !first.is_empty()).into_iter().collect();
            while let Some(more) = words.next_if(|more| more.contains('=') && !more.contains(':')) {
                parameters.push(more);
            }
            laws.push(if head == "lognormal" { lognormal(&parameters, size)? } else { uniform(&parameters, size)? });
        }
        Spec { text: text.into(), laws, ..Spec::default() }.checked()
    }

    /// A tree like one that was read.
    pub fn like(profile: &Profile, count: Option<u64>) -> Result<Spec, String> {
        if profile.files == 0 {
            return Err("there is no file in it, so there is nothing to be like".into());
        }
        let entries = profile.files + profile.symlinks + profile.hard_links;
        let wanted = count.unwrap_or(profile.files);
        let part = |n: u64| (u128::from(n) * u128::from(wanted) / u128::from(profile.files)) as u64;
        let (symlinks, hard_links) = (part(profile.symlinks), part(profile.hard_links));
        let rows = Skeleton::scaled(&profile.rows(), wanted + symlinks + hard_links);
        Spec {
            text: format!("like:{entries}:{}:{}", profile.bytes, profile.dirs),
            laws: profile.sizes(wanted),
            symlinks,
            hard_links,
            rows: Some(rows),
            lengths: Some([profile.file_names.clone(), profile.dir_names.clone()]),
            shuffled: true,
        }
        .checked()
    }

    pub fn files(&self) -> u64 {
        self.laws.iter().map(Law::count).sum()
    }

    fn checked(self) -> Result<Spec, String> {
        let (mut files, mut bytes) = (0u64, 0u64);
        for law in &self.laws {
            files = files.saturating_add(law.count());
            if let Law::Even { total, .. } = law {
                bytes = bytes.checked_add(*total).ok_or("these are more bytes than any file system has (2^64)")?;
            }
        }
        if files > MOST_FILES {
            return Err(format!("{files} files are too many; {MOST_FILES} is the most"));
        }
        Ok(self)
    }

    /// The same with `1 / scale` of the bytes.
    pub fn scaled(mut self, scale: u64) -> Spec {
        if scale <= 1 {
            return self;
        }
        let before = self.files().max(1);
        self.laws = self.laws.iter().map(|law| law.scaled(scale)).collect();
        let part = |n: u64| (u128::from(n) * u128::from(self.files()) / u128::from(before)) as u64;
        (self.symlinks, self.hard_links) = (part(self.symlinks), part(self.hard_links));
        self
    }
}

fn fixed(word: &str, size: SizeParser<'_>) -> Result<Law, String> {
    let unknown = || format!("'{word}' is not a data set; {POSSIBLE}");
    let (count, each) = word.split_once(['x', 'X', '\u{d7}']).ok_or_else(unknown)?;
    if count.is_empty() || !count.chars().all(|c| c.is_ascii_digit() || c == '_') {
        return Err(unknown());
    }
    let count = counted(count, word)?;
    let each = sized(each, word, size)?;
    let total = count.checked_mul(each).ok_or_else(|| format!("'{word}' is more bytes than any file system has (2^64)"))?;
    Ok(Law::Even { count, total })
}

fn counted(text: &str, word: &str) -> Result<u64, String> {
    match text.replace('_', "").parse::<u64>() {
        Ok(0) => Err(format!("'{word}' has no file; the smallest count is 1")),
        Ok(count) if count <= MOST_FILES => Ok(count),
        Ok(count) => Err(format!("{count} files in '{word}' are too many; {MOST_FILES} is the most")),
        Err(_) if text.chars().all(|c| c.is_ascii_digit() || c == '_') && !text.is_empty() => {
            Err(format!("'{text}' files are too many; {MOST_FILES} is the most"))
        }
        Err(_) => Err(format!("'{text}' in '{word}' is no count; write a whole number like 1000")),
    }
}

fn sized(text: &str, word: &str, size: SizeParser<'_>) -> Result<u64, String> {
    let bytes = size(text.trim()).map_err(|why| format!("'{text}' in '{word}': {why}"))?;
    if bytes > MOST_SIZE {
        return Err(format!("'{text}' in '{word}' is more than a file can have (8 EiB)"));
    }
    Ok(bytes)
}

/// Takes the parameters of a law apart; `Err` names those there are.
fn parameters<'a>(law: &str, given: &[&'a str], known: &[&str]) -> Result<Vec<(usize, &'a str)>, String> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    for parameter in given {
        let place = parameter.split_once('=').and_then(|(name, value)| Some((known.iter().position(|k| *k == name.trim())?, value.trim())));
        let Some(place) = place else {
            return Err(format!(
                "'{parameter}' is no parameter of {law}; there are {}",
                known.iter().map(|name| format!("{name}=")).collect::<Vec<_>>().join(", ")
            ));
        };
        if found.iter().any(|(at, _)| *at == place.0) {
            return Err(format!("{law} has {}= twice", known[place.0]));
        }
        found.push(place);
    }
    Ok(found)
}

fn lognormal(given: &[&str], size: SizeParser<'_>) -> Result<Law, String> {
    let (mut median, mut sigma, mut count, mut most) = (64 << 10, 2.0f64, 10_000, MOST_SIZE);
    for (at, value) in parameters("lognormal", given, &["median", "sigma", "count", "max"])? {
        match at {
            0 => median = sized(value, "median", size)?,
            1 => {
                sigma =
                    value.parse().map_err(|_| format!("sigma={value} is no number; it is that of the logarithm, 2 for a wide spread"))?
            }
            2 => count = counted(value, "lognormal")?,
            _ => most = sized(value, "max", size)?,
        }
    }
    if median == 0 {
        return Err("lognormal has no median of 0; the smallest is 1B".into());
    }
    if !(0.0..=10.0).contains(&sigma) {
        return Err(format!("sigma={sigma} is impossible; it is from 0 (all alike) to 10"));
    }
    Ok(Law::Lognormal { count, median: median as f64, sigma, most })
}

fn uniform(given: &[&str], size: SizeParser<'_>) -> Result<Law, String> {
    let (mut least, mut most, mut count) = (0, 1 << 20, 10_000);
    for (at, value) in parameters("uniform", given, &["min", "max", "count"])? {
        match at {
            0 => least = sized(value, "min", size)?,
            1 => most = sized(value, "max", size)?,
            _ => count = counted(value, "uniform")?,
        }
    }
    if least > most {
        return Err(format!("uniform has a min of {least} bytes above its max of {most} bytes"));
    }
    Ok(Law::Uniform { count, least, most })
}
