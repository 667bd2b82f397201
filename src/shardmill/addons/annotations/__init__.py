"""Formats of annotated images: COCO, Pascal VOC, YOLO, tables of boxes, and what labelling tools export."""
