int store_answer();

int main() { return store_answer() == 0; }
