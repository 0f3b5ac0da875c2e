"""The papers that croupier cites, by key: what stands beneath a table that cites them, and what docs/papers.md says."""

from __future__ import annotations

import re
from dataclasses import dataclass

KEY = re.compile(r"\[([A-Z][A-Za-z+]*[0-9]{2})\]")
"""How a paper is cited, as in [CZ23] Thm 1."""


@dataclass(frozen=True)
class Reference:
    """One paper."""

    key: str
    authors: str
    title: str
    venue: str
    year: int
    arxiv: str = ""

    def __str__(self) -> str:
        names = self.authors.split(", ")
        who = ", ".join(map(_family_name, names[:6])) + (" et al." if len(names) > 6 else "")
        where = " ".join(word for word in (self.venue, str(self.year)) if word)
        return f"[{self.key}] {who}: {self.title}. {where}{f', arXiv {self.arxiv}' if self.arxiv else ''}."


def _family_name(name: str) -> str:
    """The last word, with the small ones before it, as of John von Neumann."""
    words = name.split()
    return " ".join(words[next((place for place, word in enumerate(words) if word.islower()), -1) :])


def cited(text: str) -> list[Reference]:
    """The papers that a text cites, each once, in the order in which they come.

    >>> for reference in cited("[CZ23] Thm 1, as [CZ23] Thm 2"):
    ...     print(reference)
    [CZ23] Chowdhury, Zhou: Distributed Differential Privacy in Multi-Armed Bandits. ICLR 2023, arXiv 2206.05772.
    """
    return [REFERENCES[key] for key in dict.fromkeys(KEY.findall(text)) if key in REFERENCES]


_ALL = (
    Reference(
        "TKMS21",
        "Jay Tenenbaum, Haim Kaplan, Yishay Mansour, Uri Stemmer",
        "Differentially Private Multi-Armed Bandits in the Shuffle Model",
        "NeurIPS",
        2021,
        "2106.02900",
    ),
    Reference(
        "TKMS23",
        "Jay Tenenbaum, Haim Kaplan, Yishay Mansour, Uri Stemmer",
        "Concurrent Shuffle Differential Privacy Under Continual Observation",
        "ICML",
        2023,
        "2301.12535",
    ),
    Reference(
        "CZ23",
        "Sayak Ray Chowdhury, Xingyu Zhou",
        "Distributed Differential Privacy in Multi-Armed Bandits",
        "ICLR",
        2023,
        "2206.05772",
    ),
    Reference(
        "GKM21",
        "Badih Ghazi, Ravi Kumar, Pasin Manurangsi",
        "User-Level Private Learning via Correlated Sampling",
        "NeurIPS",
        2021,
        "2110.11208",
    ),
    Reference(
        "AWHOIB25",
        "Achraf Azize, Yulian Wu, Junya Honda, Francesco Orabona, Shinji Ito, Debabrota Basu",
        "Optimal Regret of Bandits under Differential Privacy",
        "NeurIPS",
        2025,
        "2505.05613",
    ),
    Reference(
        "IKOS06",
        "Yuval Ishai, Eyal Kushilevitz, Rafail Ostrovsky, Amit Sahai",
        "Cryptography from Anonymity",
        "FOCS",
        2006,
        "",
    ),
    Reference(
        "BBGN20",
        "Borja Balle, James Bell, Adrià Gascón, Kobbi Nissim",
        "Private Summation in the Multi-Message Shuffle Model",
        "CCS",
        2020,
        "2002.00817",
    ),
    Reference(
        "CSUZZ19",
        "Albert Cheu, Adam Smith, Jonathan Ullman, David Zeber, Maxim Zhilyaev",
        "Distributed Differential Privacy via Shuffling",
        "EUROCRYPT",
        2019,
        "1808.01394",
    ),
    Reference(
        "CJMP22",
        "Albert Cheu, Matthew Joseph, Jieming Mao, Binghui Peng",
        "Shuffle Private Stochastic Convex Optimization",
        "ICLR",
        2022,
        "2106.09805",
    ),
    Reference(
        "CY21", "Albert Cheu, Chao Yan", "Pure Differential Privacy from Secure Intermediaries", "", 2021, "2112.10032"
    ),
    Reference(
        "GKMP20",
        "Badih Ghazi, Ravi Kumar, Pasin Manurangsi, Rasmus Pagh",
        "Private Counting from Anonymous Messages: Near-Optimal Accuracy with Vanishing Communication Overhead",
        "ICML",
        2020,
        "2106.04247",
    ),
    Reference(
        "AKL21",
        "Naman Agarwal, Peter Kairouz, Ziyu Liu",
        "The Skellam Mechanism for Differentially Private Federated Learning",
        "NeurIPS",
        2021,
        "2110.04995",
    ),
    Reference(
        "KLS21",
        "Peter Kairouz, Ziyu Liu, Thomas Steinke",
        "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure Aggregation",
        "ICML",
        2021,
        "2102.06387",
    ),
    Reference(
        "CKS20",
        "Clément L. Canonne, Gautam Kamath, Thomas Steinke",
        "The Discrete Gaussian for Differential Privacy",
        "NeurIPS",
        2020,
        "2004.00010",
    ),
    Reference(
        "Mir12",
        "Ilya Mironov",
        "On Significance of the Least Significant Bits for Differential Privacy",
        "CCS",
        2012,
        "",
    ),
    Reference(
        "Neu51",
        "John von Neumann",
        "Various Techniques Used in Connection with Random Digits",
        "National Bureau of Standards Applied Mathematics Series",
        1951,
    ),
    Reference(
        "GV14",
        "Quan Geng, Pramod Viswanath",
        "The Optimal Mechanism in Differential Privacy",
        "ISIT",
        2014,
        "1212.1186",
    ),
    Reference(
        "BIK+17",
        "Keith Bonawitz, Vladimir Ivanov, Ben Kreuter, Antonio Marcedone, H. Brendan McMahan, "
        "Sarvar Patel, Daniel Ramage, Aaron Segal, Karn Seth",
        "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
        "CCS",
        2017,
        "",
    ),
    Reference(
        "BS16",
        "Mark Bun, Thomas Steinke",
        "Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds",
        "TCC",
        2016,
        "1605.02065",
    ),
    Reference("Mir17", "Ilya Mironov", "Rényi Differential Privacy", "CSF", 2017, "1702.07476"),
    Reference(
        "DGKKM22",
        "Vadym Doroshenko, Badih Ghazi, Pritish Kamath, Ravi Kumar, Pasin Manurangsi",
        "Connect the Dots: Tighter Discrete Approximations of Privacy Loss Distributions",
        "PETS",
        2022,
        "2207.04380",
    ),
    Reference(
        "CP34",
        "C. J. Clopper, E. S. Pearson",
        "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial",
        "Biometrika",
        1934,
        "",
    ),
    Reference(
        "JA25",
        "Marc Jourdan, Achraf Azize",
        "Optimal Best Arm Identification under Differential Privacy",
        "NeurIPS",
        2025,
        "2510.17348",
    ),
    Reference(
        "HRMS21",
        "Steven R. Howard, Aaditya Ramdas, Jon McAuliffe, Jasjeet Sekhon",
        "Time-uniform, Nonparametric, Nonasymptotic Confidence Sequences",
        "Annals of Statistics",
        2021,
        "1810.08240",
    ),
    Reference(
        "WR24",
        "Ian Waudby-Smith, Aaditya Ramdas",
        "Estimating Means of Bounded Random Variables by Betting",
        "JRSS B",
        2024,
        "2010.09686",
    ),
    Reference(
        "JKPW22",
        "Ramesh Johari, Pete Koomen, Leonid Pekelis, David Walsh",
        "Always Valid Inference: Continuous Monitoring of A/B Tests",
        "Operations Research",
        2022,
        "1512.04922",
    ),
    Reference(
        "LB23",
        "Biyonka Liang, Iavor Bojinov",
        "An Experimental Design for Anytime-Valid Causal Inference on Multi-Armed Bandits",
        "",
        2023,
        "2311.05794",
    ),
    Reference(
        "LM22",
        "Michael Lindon, Alan Malek",
        "Anytime-Valid Inference For Multinomial Count Data",
        "NeurIPS",
        2022,
        "2011.03567",
    ),
    Reference(
        "MA17",
        "Olivier Marchal, Julyan Arbel",
        "On the Sub-Gaussianity of the Beta and Dirichlet Distributions",
        "Electronic Communications in Probability",
        2017,
        "1705.00048",
    ),
    Reference(
        "Tho33",
        "William R. Thompson",
        "On the Likelihood that One Unknown Probability Exceeds Another in View of the Evidence of Two Samples",
        "Biometrika",
        1933,
    ),
    Reference(
        "EMM06",
        "Eyal Even-Dar, Shie Mannor, Yishay Mansour",
        "Action Elimination and Stopping Conditions for the Multi-Armed Bandit and Reinforcement Learning Problems",
        "Journal of Machine Learning Research",
        2006,
    ),
    Reference(
        "ACF02",
        "Peter Auer, Nicolò Cesa-Bianchi, Paul Fischer",
        "Finite-time Analysis of the Multiarmed Bandit Problem",
        "Machine Learning",
        2002,
    ),
    Reference(
        "GC11",
        "Aurélien Garivier, Olivier Cappé",
        "The KL-UCB Algorithm for Bounded Stochastic Bandits and Beyond",
        "COLT",
        2011,
        "1102.2490",
    ),
    Reference(
        "HT15",
        "Junya Honda, Akimichi Takemura",
        "Non-Asymptotic Analysis of a New Bandit Algorithm for Semi-Bounded Rewards",
        "Journal of Machine Learning Research",
        2015,
        "",
    ),
    Reference(
        "SLF14",
        "Guy L. Steele, Doug Lea, Christine H. Flood",
        "Fast Splittable Pseudorandom Number Generators",
        "OOPSLA",
        2014,
    ),
    Reference(
        "SS19",
        "Touqir Sajed, Or Sheffet",
        "An Optimal Private Stochastic-MAB Algorithm Based on an Optimal Private Stopping Rule",
        "ICML",
        2019,
        "1905.09383",
    ),
    Reference(
        "APS11",
        "Yasin Abbasi-Yadkori, Dávid Pál, Csaba Szepesvári",
        "Improved Algorithms for Linear Stochastic Bandits",
        "NeurIPS",
        2011,
        "",
    ),
    Reference(
        "SS18",
        "Roshan Shariff, Or Sheffet",
        "Differentially Private Contextual Linear Bandits",
        "NeurIPS",
        2018,
        "1810.00068",
    ),
    Reference(
        "CZ22",
        "Sayak Ray Chowdhury, Xingyu Zhou",
        "Shuffle Private Linear Contextual Bandits",
        "ICML",
        2022,
        "2202.05567",
    ),
    Reference(
        "ZCHLW20",
        "Kai Zheng, Tianle Cai, Weiran Huang, Zhenguo Li, Liwei Wang",
        "Locally Differentially Private (Contextual) Bandits Learning",
        "NeurIPS",
        2020,
        "2006.00701",
    ),
    Reference(
        "HGFD22",
        "Osama A. Hanna, Antonious M. Girgis, Christina Fragouli, Suhas Diggavi",
        "Differentially Private Stochastic Linear Bandits: (Almost) for Free",
        "",
        2022,
        "2207.03445",
    ),
    Reference(
        "LZJ22",
        "Fengjiao Li, Xingyu Zhou, Bo Ji",
        "Differentially Private Linear Bandits with Partial Distributed Feedback",
        "WiOpt",
        2022,
        "2207.05827",
    ),
    Reference(
        "CEM23",
        "Vasileios Charisopoulos, Hossein Esfandiari, Vahab Mirrokni",
        "Robust and private stochastic linear bandits",
        "ICML",
        2023,
        "",
    ),
    Reference(
        "AB24",
        "Achraf Azize, Debabrota Basu",
        "Concentrated Differential Privacy for Bandits",
        "SaTML",
        2024,
        "2309.00557",
    ),
    Reference(
        "Sar26",
        "Sahasrajit Sarmasarkar",
        "Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits",
        "",
        2026,
        "2602.00417",
    ),
    Reference(
        "RU26",
        "Mohammadreza Riyazat, Eranga Ukwatta",
        "AdaPrivate-TS: Private Thompson Sampling for Contextual Bandits with Privacy Amplification",
        "",
        2026,
        "2606.21757",
    ),
    Reference(
        "HZZBGY20",
        "Yanjun Han, Zhengqing Zhou, Zhengyuan Zhou, Jose Blanchet, Peter W. Glynn, Yinyu Ye",
        "Sequential Batch Learning in Finite-Action Linear Contextual Bandits",
        "",
        2020,
        "2004.06321",
    ),
    Reference(
        "DNPR10",
        "Cynthia Dwork, Moni Naor, Toniann Pitassi, Guy N. Rothblum",
        "Differential Privacy under Continual Observation",
        "STOC",
        2010,
        "",
    ),
    Reference(
        "CSS11",
        "T.-H. Hubert Chan, Elaine Shi, Dawn Song",
        "Private and Continual Release of Statistics",
        "ACM Transactions on Information and System Security",
        2011,
        "",
    ),
    Reference("Hon15", "James Honaker", "Efficient Use of Differentially Private Binary Trees", "TPDP", 2015, ""),
    Reference(
        "FHU23",
        "Hendrik Fichtenberger, Monika Henzinger, Jalaj Upadhyay",
        "Constant Matters: Fine-Grained Error Bound on Differentially Private Continual Observation",
        "ICML",
        2023,
        "2202.11205",
    ),
    Reference(
        "HUU23",
        "Monika Henzinger, Jalaj Upadhyay, Sarvagya Upadhyay",
        "Almost Tight Error Bounds on Differentially Private Continual Counting",
        "SODA",
        2023,
        "2211.05006",
    ),
    Reference(
        "FNNT22",
        "Vitaly Feldman, Jelani Nelson, Huy Lê Nguyễn, Kunal Talwar",
        "Private Frequency Estimation via Projective Geometry",
        "ICML",
        2022,
        "2203.00194",
    ),
    Reference(
        "ASZ19",
        "Jayadev Acharya, Ziteng Sun, Huanyu Zhang",
        "Hadamard Response: Estimating Distributions Privately, Efficiently, and with Little Communication",
        "AISTATS",
        2019,
        "1802.04705",
    ),
    Reference(
        "MS20",
        "Ryan McKenna, Daniel Sheldon",
        "Permute-and-Flip: A New Mechanism for Differentially Private Selection",
        "NeurIPS",
        2020,
        "2010.12603",
    ),
    Reference(
        "BNS16",
        "Mark Bun, Kobbi Nissim, Uri Stemmer",
        "Simultaneous Private Learning of Multiple Concepts",
        "ITCS",
        2016,
        "1511.08552",
    ),
    Reference(
        "BNS13",
        "Amos Beimel, Kobbi Nissim, Uri Stemmer",
        "Characterizing the Sample Complexity of Private Learners",
        "ITCS",
        2013,
        "1402.2224",
    ),
    Reference(
        "MJ18",
        "Ryan Moulton, Yunjiang Jiang",
        "Maximally Consistent Sampling and the Jaccard Index of Probability Distributions",
        "IEEE International Conference on Data Mining Workshops",
        2018,
        "1809.04052",
    ),
    Reference(
        "Kea98",
        "Michael Kearns",
        "Efficient Noise-Tolerant Learning from Statistical Queries",
        "Journal of the ACM",
        1998,
        "",
    ),
    Reference(
        "DV08",
        "John Dunagan, Santosh Vempala",
        "A Simple Polynomial-Time Rescaling Algorithm for Solving Linear Programs",
        "Mathematical Programming",
        2008,
        "",
    ),
    Reference(
        "Hoe56",
        "Wassily Hoeffding",
        "On the Distribution of the Number of Successes in Independent Trials",
        "Annals of Mathematical Statistics",
        1956,
        "",
    ),
    Reference(
        "VM82",
        "V. A. Vatutin, V. G. Mikhailov",
        "Limit Theorems for the Number of Empty Cells in an Equiprobable Scheme for Group Allocation of Particles",
        "Theory of Probability and its Applications",
        1982,
        "",
    ),
    Reference(
        "BCPS26",
        "Richard L. Barnes, David Cook, Christopher Patton, Phillipp Schoppmann",
        "Verifiable Distributed Aggregation Functions",
        "Internet-Draft draft-irtf-cfrg-vdaf, version 20",
        2026,
    ),
    Reference(
        "BBCGGI19",
        "Dan Boneh, Elette Boyle, Henry Corrigan-Gibbs, Niv Gilboa, Yuval Ishai",
        "Zero-Knowledge Proofs on Secret-Shared Data via Fully Linear PCPs",
        "CRYPTO",
        2019,
    ),
)

REFERENCES = {reference.key: reference for reference in _ALL}
"""Every paper by its key."""
