// Where this page takes part, and whom it trusts there.
//
// This is code and not a link's business: whoever may choose the servers and their keys learns what people answer.
// The addresses of both servers stand in the policy of index.html too, so that the page can reach nobody else.

export const ANALYZER = "http://127.0.0.1:8400";
export const EXPERIMENT = "screens";

// The signing keys that `croupier serve keys DIRECTORY` prints, each as that server's operator tells it.
export const KEYS = { analyzer: "", front: "" };
