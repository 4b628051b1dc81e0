// Package hf holds convert.py, which writes a GGUF model as a folder of Hugging Face's libraries, and its test.
package hf
