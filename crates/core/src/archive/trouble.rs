//! What went wrong with a day of the archive: kept until the same step goes well, so that no restart looks like a cure.

use super::ArchiveDay;
use crate::Timestamp;
use crate::id::ItemType;

/// What is done with a day, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DayStep {
    /// Room is made for it, and ended items move into it.
    Move,
    /// A round of a type, which begins with the day of its oldest item: of this one only, and of all that follow.
    Archive,
    Export,
    Verify,
    Drop,
}

impl DayStep {
    pub const ALL: [Self; 5] = [
        Self::Move,
        Self::Archive,
        Self::Export,
        Self::Verify,
        Self::Drop,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Move => "MOVE",
            Self::Archive => "ARCHIVE",
            Self::Export => "EXPORT",
            Self::Verify => "VERIFY",
            Self::Drop => "DROP",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == text)
    }

    /// Whether it reads or writes the day's file.
    pub fn is_of_file(self) -> bool {
        match self {
            Self::Move | Self::Archive => false,
            Self::Export | Self::Verify | Self::Drop => true,
        }
    }

    /// In the middle of a sentence: the day could not be ….
    pub fn done(self) -> &'static str {
        match self {
            Self::Move => "filled",
            Self::Archive => "archived",
            Self::Export => "exported",
            Self::Verify => "verified",
            Self::Drop => "dropped",
        }
    }

    /// Steps that read the whole file: when one goes well, what went wrong in the others is over.
    pub fn ends(self) -> &'static [Self] {
        match self {
            Self::Move => &[Self::Move],
            Self::Archive => &[Self::Archive],
            Self::Export | Self::Verify | Self::Drop => &[Self::Export, Self::Verify, Self::Drop],
        }
    }
}

/// A day that could not be filled, archived, exported, verified or dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayTrouble {
    pub item_type: ItemType,
    pub day: ArchiveDay,
    pub step: DayStep,
    /// One sentence with the reason and the remedy.
    pub why: String,
    /// When this step failed first.
    pub since: Timestamp,
}

impl DayTrouble {
    /// For people: which day, what of it, and why.
    pub fn sentence(&self) -> String {
        let (item_type, day) = (&self.item_type, self.day);
        let (done, why) = (self.step.done(), &self.why);
        format!("{item_type} of {day} could not be {done}: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_read_as_it_is_written_and_ends_itself() {
        for step in DayStep::ALL {
            assert_eq!(DayStep::parse(step.as_str()), Some(step));
            assert!(step.ends().contains(&step));
        }
        assert_eq!(DayStep::parse("move"), None);
        assert!(!DayStep::Drop.ends().contains(&DayStep::Move));
    }
}
