//! stub
#[derive(Clone, Debug, Default)]
pub struct Filter;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Include,
    Exclude,
}
impl Filter {
    pub fn is_empty(&self) -> bool {
        true
    }
    pub fn check(&self, _: &[u8], _: bool) -> Verdict {
        Verdict::Include
    }
    pub fn check_with(&self, _: &[u8], _: &[u8], _: bool) -> Verdict {
        Verdict::Include
    }
}
impl Filter {
    pub fn include(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
    pub fn exclude(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
    pub fn rule(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
    pub fn patterns(&mut self, _: &[u8], _: Verdict, _: bool) -> Result<(), String> {
        Ok(())
    }
}
